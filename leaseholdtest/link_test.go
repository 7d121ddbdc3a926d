// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

// quiet is how long a test listens to hear nothing. What it must not hear, it hears later, after the fault has ended.
const quiet = 100 * time.Millisecond

// patience bounds what is bound to happen.
const patience = 30 * time.Second

// echo is a server that sends everything back, behind a link.
type echo struct {
	*Link
	listener net.Listener
	wg       sync.WaitGroup
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(ln.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Link: l, listener: ln}
	e.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.(*net.TCPConn).CloseWrite()
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		l.close()
		_ = ln.Close()
		e.wg.Wait()
	})
	return e
}

func (e *echo) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", e.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*net.TCPConn)
}

// dialReset dials a link that resets what it accepts, which can be noticed as early as by the dial.
func (e *echo) dialReset(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", e.addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	wasReset(t, conn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatalf("send %q: %v", text, err)
	}
}

// hear reads exactly as much as want.
func hear(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if err != nil || string(got) != want {
		t.Fatalf("heard %q, %v: want %q", got[:n], err, want)
	}
}

// silence fails the test if anything is heard for a while.
func silence(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(quiet))
	var b [1]byte
	n, err := conn.Read(b[:])
	if ne, ok := errors.AsType[net.Error](err); n != 0 || !ok || !ne.Timeout() {
		t.Fatalf("heard %d bytes, %v: want silence", n, err)
	}
}

// wasReset waits for a RST.
func wasReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("the connection ended with %v, want %v", err, syscall.ECONNRESET)
	}
}

func TestLink_HoldKeepsBytesOfOneDirectionAndDeliversThemInOrder(t *testing.T) {
	for dir, d := range []Direction{Up, Down} {
		t.Run(d.String(), func(t *testing.T) {
			e := newEcho(t)
			conn := e.dial(t)
			send(t, conn, "before")
			hear(t, conn, "before")
			e.Hold(d)
			send(t, conn, "one")
			send(t, conn, "two")
			silence(t, conn)
			Eventually(t, patience, "six bytes are held", func() bool { return e.Stats().Held[dir] == 6 })
			if other := e.Stats().Held[1-dir]; other != 0 {
				t.Errorf("%d bytes of the other direction are held", other)
			}
			e.Release(d)
			hear(t, conn, "onetwo")
			if s := e.Stats(); s.Open != 1 || s.Accepted != 1 || s.Swallowed != [2]int{} {
				t.Errorf("after a hold: %+v", s)
			}
		})
	}
}

func TestLink_HoldKeepsTheEndToo(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	send(t, conn, "before")
	hear(t, conn, "before")
	e.Hold(Up)
	send(t, conn, "last")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	silence(t, conn)
	e.Release(Up)
	hear(t, conn, "last")
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("then heard %d bytes, %v: want the end", n, err)
	}
	Eventually(t, patience, "the connection is forgotten", func() bool { return e.Stats().Open == 0 })
}

func TestLink_NewConnectionsWaitForTheFaultToEnd(t *testing.T) {
	for name, f := range map[string]Fault{"hold": {Hold: true}, "swallow": {Swallow: true}} {
		for _, d := range []Direction{Up, Down, Both} {
			t.Run(name+d.String(), func(t *testing.T) {
				e := newEcho(t)
				e.Set(d, f)
				conn := e.dial(t) // the kernel accepts
				send(t, conn, "first")
				silence(t, conn)
				e.Heal()
				hear(t, conn, "first") // nothing was lost: the connection had not got through
			})
		}
	}
}

func TestLink_BlackholeLosesBytesAndResetsWhatLostThemAfterwards(t *testing.T) {
	for dir, d := range []Direction{Up, Down} {
		t.Run(d.String(), func(t *testing.T) {
			e := newEcho(t)
			loser, idle := e.dial(t), e.dial(t)
			for _, conn := range []*net.TCPConn{loser, idle} {
				send(t, conn, "before")
				hear(t, conn, "before")
			}
			e.Blackhole(d)
			send(t, loser, "lost")
			silence(t, loser)
			Eventually(t, patience, "four bytes are lost", func() bool { return e.Stats().Swallowed[dir] == 4 })
			e.Heal()
			wasReset(t, loser)
			send(t, idle, "after")
			hear(t, idle, "after")
		})
	}
}

func TestLink_BlackholeHidesTheMembersEnd(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	send(t, conn, "before")
	hear(t, conn, "before")
	e.Blackhole(Down)
	e.setDown(true)
	silence(t, conn)
	send(t, conn, "into the void")
	silence(t, conn)
	e.Heal()
	wasReset(t, conn)
}

func TestLink_BlackholeTakesWhatWasHeld(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	send(t, conn, "before")
	hear(t, conn, "before")
	e.Hold(Up)
	send(t, conn, "held")
	Eventually(t, patience, "four bytes are held", func() bool { return e.Stats().Held[up] == 4 })
	e.Blackhole(Up)
	Eventually(t, patience, "four bytes are lost", func() bool { return e.Stats().Swallowed[up] == 4 })
	e.Release(Up)
	silence(t, conn)
	e.Heal()
	wasReset(t, conn)
}

func TestLink_ResetEndsBothSidesAndAcceptsAgain(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	send(t, conn, "before")
	hear(t, conn, "before")
	e.Reset()
	wasReset(t, conn)
	again := e.dial(t)
	send(t, again, "after")
	hear(t, again, "after")
}

func TestLink_RefuseResetsNewConnectionsUntilHealed(t *testing.T) {
	e := newEcho(t)
	old := e.dial(t)
	send(t, old, "before")
	hear(t, old, "before")
	e.Refuse()
	wasReset(t, old)
	e.dialReset(t)
	e.Heal()
	conn := e.dial(t)
	send(t, conn, "after")
	hear(t, conn, "after")
}

func TestLink_DownMemberResets(t *testing.T) {
	e := newEcho(t)
	old := e.dial(t)
	send(t, old, "before")
	hear(t, old, "before")
	e.setDown(true)
	wasReset(t, old)
	e.dialReset(t)
	e.setDown(false)
	conn := e.dial(t)
	send(t, conn, "after")
	hear(t, conn, "after")
}

// A member that ends the connection in order and then is gone resets a client that goes on sending.
func TestLink_SenderLearnsThatTheMemberIsGone(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	l, err := newLink(ln.Addr().(*net.TCPAddr).AddrPort())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	conn, err := net.Dial("tcp", l.addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	member, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = member.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("heard %d bytes, %v: want the end", n, err)
	}
	for err = nil; err == nil; {
		_, err = conn.Write([]byte("anybody there?"))
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		t.Errorf("sending went on for %v", patience)
	}
	Eventually(t, patience, "the connection is forgotten", func() bool { return l.Stats().Open == 0 })
}

func TestLink_FrozenTwiceThawsAtTheSecond(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	e.freeze()
	e.freeze()
	send(t, conn, "frozen")
	silence(t, conn)
	e.Heal() // the user's faults only
	e.thaw()
	silence(t, conn)
	e.thaw()
	hear(t, conn, "frozen")
}

func TestLink_DelayIsPerByteAndEndsAtOnce(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	const delay = 150 * time.Millisecond
	e.Delay(Up, delay, 0)
	begin := time.Now()
	send(t, conn, "slow")
	hear(t, conn, "slow")
	if took := time.Since(begin); took < delay {
		t.Errorf("took %v, want at least %v", took, delay)
	}
	e.Delay(Up, time.Hour, 0)
	send(t, conn, "slower")
	silence(t, conn)
	e.Heal() // also for what is on its way
	hear(t, conn, "slower")
}

func TestLink_BandwidthBoundsTheRate(t *testing.T) {
	e := newEcho(t)
	conn := e.dial(t)
	e.Limit(Down, 20_000)
	begin := time.Now()
	text := string(bytes.Repeat([]byte("x"), 10_000))
	send(t, conn, text)
	hear(t, conn, text)
	// The first twentieth of a second's worth goes at once.
	if took := time.Since(begin); took < 440*time.Millisecond {
		t.Errorf("10,000 bytes at 20,000 a second took %v", took)
	}
}
