// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	var sent atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for piece := make([]byte, 64<<10); ; { // the kernel takes some, too: how much depends on the machine
			n, err := conn.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return // it ends with the link
			}
		}
	})
	Eventually(t, patience, "the link is full", func() bool { return e.Stats().Held[up] > maxHeld })
	before, since := int64(0), time.Now()
	Eventually(t, patience, "the sender waits", func() bool {
		if now := sent.Load(); now != before {
			before, since = now, time.Now()
		}
		return time.Since(since) > quiet
	})
	if held := e.Stats().Held[up]; held > maxHeld+readSize {
		t.Errorf("%d bytes are held, want at most %d", held, maxHeld+readSize)
	}
	e.close()
	wg.Wait()
}
