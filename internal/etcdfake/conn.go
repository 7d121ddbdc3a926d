// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// errReset is what both ends of a connection read after a reset.
var errReset error = &net.OpError{Op: "read", Net: "fake", Err: syscall.ECONNRESET}

// addr names one end of a connection; the server finds the client's host and the connection itself through it.
type addr struct {
	name string
	link *Link
	conn *conn
}

func (a *addr) Network() string { return "fake" }
func (a *addr) String() string  { return a.name }

// conn is one end of an in-memory connection. A goroutine that reads from it waits on channels and timers made by that
// very goroutine, so that it is durably blocked inside a synctest bubble and fake time can pass.
type conn struct {
	in, out       *lane
	local, remote *addr

	deadline struct {
		sync.Mutex
		read    time.Time
		changed chan struct{} // closed and replaced when read changes
	}
}

// lane is one direction of a connection: bytes with the instants at which they arrive.
type lane struct {
	link *Link
	up   bool // from the client to the member

	mu     sync.Mutex
	chunks []chunk       // in the order sent: the reader waits for the first, so that none overtakes another
	broken error         // set by a reset: nothing more is read or written
	shut   bool          // the writing end was closed
	closed bool          // the reading end was closed
	moved  chan struct{} // closed and replaced when anything above changes
}

// chunk is what one Write carried, or the end of the lane when end is set.
type chunk struct {
	data    []byte
	arrives time.Time
	end     error
}

func newLane(l *Link, up bool) *lane { return &lane{link: l, up: up, moved: make(chan struct{})} }

func newConnPair(l *Link, client, server string) (*conn, *conn) {
	up, down := newLane(l, true), newLane(l, false)
	c := &conn{in: down, out: up}
	s := &conn{in: up, out: down}
	c.local, c.remote = &addr{client, l, c}, &addr{server, l, c}
	s.local, s.remote = &addr{server, l, s}, &addr{client, l, s}
	c.deadline.changed = make(chan struct{})
	s.deadline.changed = make(chan struct{})
	return c, s
}

// poke tells a blocked reader to look again. Called with mu held.
func (l *lane) poke() {
	close(l.moved)
	l.moved = make(chan struct{})
}

func (l *lane) push(c chunk) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.broken != nil:
		return l.broken
	case l.shut:
		return net.ErrClosed
	case l.closed:
		return nil // nobody reads it any more: the writer learns that from what comes the other way
	}
	c.arrives = time.Now().Add(l.link.draw(l.up))
	l.chunks = append(l.chunks, c)
	l.shut = c.end != nil
	l.poke()
	return nil
}

// pause is what a reader with nothing to read waits for: a change of the lane or, unless left is negative, the
// arrival of the oldest bytes under way.
type pause struct {
	moved <-chan struct{}
	left  time.Duration
}

// pull copies what has arrived into b.
func (l *lane) pull(b []byte) (int, pause, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return 0, pause{}, l.broken
	}
	if l.closed {
		return 0, pause{}, net.ErrClosed
	}
	if len(l.chunks) == 0 || l.link.holds(l.up) {
		return 0, pause{l.moved, -1}, nil
	}
	head := &l.chunks[0]
	if d := time.Until(head.arrives); d > 0 {
		return 0, pause{l.moved, d}, nil
	}
	if head.end != nil {
		return 0, pause{}, head.end
	}
	n := copy(b, head.data)
	if head.data = head.data[n:]; len(head.data) == 0 {
		l.chunks[0] = chunk{}
		l.chunks = l.chunks[1:]
	}
	return n, pause{}, nil
}

func (l *lane) breakOff(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = err
		l.poke()
	}
}

func (l *lane) stopReading() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.poke()
}

func (l *lane) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poke()
}

// Read blocks until bytes have arrived that the link does not hold back, the connection has ended or the read
// deadline has passed.
func (c *conn) Read(b []byte) (int, error) {
	for {
		n, p, err := c.in.pull(b)
		if n > 0 || err != nil || len(b) == 0 {
			return n, err
		}
		c.deadline.Lock()
		until, changed := c.deadline.read, c.deadline.changed
		c.deadline.Unlock()
		expires := false
		if !until.IsZero() {
			left := time.Until(until)
			if left <= 0 {
				return 0, os.ErrDeadlineExceeded
			}
			if p.left < 0 || left < p.left {
				p.left, expires = left, true
			}
		}
		var timer *time.Timer
		var ring <-chan time.Time
		if p.left >= 0 {
			timer = time.NewTimer(p.left)
			ring = timer.C
		}
		select {
		case <-p.moved:
		case <-changed:
		case <-ring:
			if expires {
				return 0, os.ErrDeadlineExceeded
			}
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// Write hands b to the network at once: HTTP/2 flow control bounds what can be under way.
func (c *conn) Write(b []byte) (int, error) {
	if c.out.link.loses(c.out.up) {
		c.reset()
		return 0, errReset
	}
	if err := c.out.push(chunk{data: append([]byte(nil), b...)}); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends this side at once. The other side reads the end after the bytes that are under way, so a link that holds
// bytes back hides it.
func (c *conn) Close() error { return c.end(io.EOF) }

func (c *conn) end(err error) error {
	c.in.stopReading()
	_ = c.out.push(chunk{end: err}) // already ended: nothing to add
	c.in.link.forget(c)
	return nil
}

// reset breaks both directions on both sides at once, as a middlebox that answers each side with RST would.
func (c *conn) reset() {
	c.in.breakOff(errReset)
	c.out.breakOff(errReset)
	c.in.link.forget(c)
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.deadline.Lock()
	defer c.deadline.Unlock()
	c.deadline.read = t
	close(c.deadline.changed)
	c.deadline.changed = make(chan struct{})
	return nil
}

// SetWriteDeadline does nothing: writes never block.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
