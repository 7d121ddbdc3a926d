// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// Whatever happens on the way, bytes arrive in order and unchanged unless the connection is reset.
func TestLink_StreamSurvivesChangingFaults(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	data := make([]byte, 3*maxHeld)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer func() { _ = conn.CloseWrite() }()
		if _, err := conn.Write(data); err != nil {
			t.Errorf("send: %v", err)
		}
	})
	wg.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		faults := []Fault{
			{},
			{Delay: time.Millisecond, Jitter: 5 * time.Millisecond},
			{Bandwidth: 50 << 20},
			{Hold: true},
			{Jitter: 3 * time.Millisecond, Bandwidth: 100 << 20},
		}
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-tick.C:
				e.Set([]Direction{Up, Down, Both}[i%3], faults[i%len(faults)])
				if i%7 == 0 {
					e.Heal()
				}
			}
		}
	})
	_ = conn.SetReadDeadline(time.Now().Add(2 * patience))
	got, err := io.ReadAll(conn)
	close(done)
	wg.Wait()
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back, %v: want the %d that were sent", len(got), err, len(data))
	}
}

func TestLink_HoldMakesAnEndlessSenderWait(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	send(t, conn, "x")
	hear(t, conn, "x")
	e.Hold(Up)
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		_, _ = conn.Write(make([]byte, 8*maxHeld)) // ends with the link
	})
	Eventually(t, patience, "the link is full", func() bool { return e.Stats().Held[up] > maxHeld })
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	select {
	case <-stop:
		t.Error("the sender did not have to wait")
	case <-timer.C:
	}
	if held := e.Stats().Held[up]; held > maxHeld+readSize {
		t.Errorf("%d bytes are held, want at most %d", held, maxHeld+readSize)
	}
	e.close()
	wg.Wait()
}
