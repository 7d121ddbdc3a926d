// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"
)

// The indices of the two directions.
const (
	up   = 0
	down = 1
)

const (
	// maxHeld is how many bytes one direction of a connection keeps before its sender has to wait: more than any
	// sender in a test has in flight, little enough for a thousand held connections.
	maxHeld = 8 << 20

	readSize = 32 << 10

	dialTimeout = 10 * time.Second
)

// pair is one connection through a link: the side that dialled, and the member.
//
// Goroutines: run, started by the link, dials the member and then waits for the connection's other four: a reader and
// a writer for each direction. All of them end when the pair is aborted or both directions have ended; the link's
// close waits for them.
type pair struct {
	link   *Link
	client *net.TCPConn
	server *net.TCPConn // nil until dialled; guarded by link.mu
	flows  [2]*flow
	dead   bool // aborted; guarded by link.mu
}

// flow is one direction of a pair. Its fields are guarded by the link's mu.
type flow struct {
	queue   []piece
	bytes   int  // in queue
	tainted bool // bytes were swallowed: nothing can pass any more
	broken  bool // the receiver is gone: what comes is thrown away
	ended   bool // the last piece, an end, has been delivered or thrown away
	// free is when the line is free again for the next piece, under a bandwidth.
	free time.Time
	// timer wakes the writer when the piece at the head is due.
	timer *time.Timer
}

// piece is what was read at once, or the end of the direction.
type piece struct {
	data    []byte
	end     end
	arrived time.Time
	luck    float64 // 0 to 1: this piece's share of the jitter
}

type end uint8

const (
	notYet  end = iota
	closing     // the sender has closed its side
	reseted     // the connection failed on the sender's side
)

func newPair(l *Link, client *net.TCPConn, first []byte) *pair {
	p := &pair{link: l, client: client, flows: [2]*flow{{}, {}}}
	for _, f := range p.flows {
		f.timer = time.AfterFunc(time.Hour, l.wake)
		f.timer.Stop()
	}
	if len(first) > 0 {
		p.pushLocked(up, piece{data: first})
	}
	return p
}

// wake lets every writer look at its queue again. The lock keeps the wake-up from falling between a writer's look and
// its wait.
func (l *Link) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cond.Broadcast()
}

func (p *pair) run() {
	l := p.link
	server := p.dial()
	l.mu.Lock()
	p.server = server
	if server == nil || p.dead || l.down {
		// The member refused, or went down between the dial and here.
		p.abortLocked()
	}
	dead := p.dead
	l.mu.Unlock()
	if !dead {
		var wg sync.WaitGroup
		wg.Go(func() { p.read(up, p.client) })
		wg.Go(func() { p.write(up, server) })
		wg.Go(func() { p.read(down, server) })
		wg.Go(func() { p.write(down, p.client) })
		wg.Wait()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.dead {
		// Both directions ended in order, and what was written last may still be on its way: no RST.
		p.dead = true
		_ = p.client.Close()
		_ = server.Close()
	}
	delete(l.pairs, p)
}

// dial connects to the member as soon as nothing on the way holds it up. It returns nil if that is not to be.
func (p *pair) dial() *net.TCPConn {
	l := p.link
	l.mu.Lock()
	for !p.dead && (l.effectiveLocked(up).blocks() || l.effectiveLocked(down).blocks()) {
		l.cond.Wait()
	}
	refused := p.dead || l.down
	l.mu.Unlock()
	if refused {
		return nil
	}
	// The bound is a formality: on the loopback interface, a dial succeeds or is refused at once.
	conn, err := net.DialTimeout("tcp", l.target.String(), dialTimeout)
	if err != nil {
		return nil
	}
	return conn.(*net.TCPConn)
}

// read moves what one side sends into the queue, until the side ends.
func (p *pair) read(dir int, from *net.TCPConn) {
	l := p.link
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		if n > 0 {
			p.pushLocked(dir, piece{data: slices.Clone(buf[:n])})
			for p.flows[dir].bytes > maxHeld && !p.dead {
				l.cond.Wait()
			}
		}
		if err != nil {
			last := piece{end: reseted}
			if err == io.EOF {
				last.end = closing
			}
			p.pushLocked(dir, last)
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
	}
}

func (p *pair) pushLocked(dir int, c piece) {
	f := p.flows[dir]
	c.arrived, c.luck = time.Now(), rand.Float64()
	f.queue = append(f.queue, c)
	f.bytes += len(c.data)
	p.link.cond.Broadcast()
}

// write delivers the queue to one side, as the faults allow.
func (p *pair) write(dir int, to *net.TCPConn) {
	l := p.link
	for {
		c, ok := p.next(dir)
		if !ok {
			return
		}
		switch c.end {
		case closing:
			if to.CloseWrite() == nil {
				return
			}
			fallthrough
		case reseted:
			l.mu.Lock()
			p.abortLocked()
			l.mu.Unlock()
			return
		case notYet:
		}
		_, err := to.Write(c.data)
		l.mu.Lock()
		if err == nil {
			l.stats.Forwarded[dir] += len(c.data)
		} else {
			// The receiver is gone. Its sender learns that from the other direction, under that one's faults.
			p.flows[dir].broken = true
			if other := 1 - dir; !p.flows[other].ended {
				p.pushLocked(other, piece{end: reseted})
			} else if !l.effectiveLocked(other).blocks() {
				p.abortLocked() // an orderly end was delivered there before; nobody is left to deliver this one
			}
		}
		l.mu.Unlock()
	}
}

// next waits for the piece to deliver now. It returns false when the direction has ended.
func (p *pair) next(dir int) (piece, bool) {
	l, f := p.link, p.flows[dir]
	l.mu.Lock()
	defer l.mu.Unlock()
	defer f.timer.Stop()
	for {
		if p.dead || f.ended {
			return piece{}, false
		}
		if len(f.queue) == 0 {
			l.cond.Wait()
			continue
		}
		fault := l.effectiveLocked(dir)
		head := &f.queue[0]
		if f.tainted || f.broken || fault.Swallow {
			p.dropLocked(dir)
			continue
		}
		if fault.Hold {
			l.cond.Wait()
			continue
		}
		due := head.arrived.Add(fault.Delay + time.Duration(head.luck*float64(fault.Jitter)))
		if fault.Bandwidth > 0 && f.free.After(due) {
			due = f.free
		}
		if wait := time.Until(due); wait > 0 {
			f.timer.Reset(wait)
			l.cond.Wait()
			continue
		}
		return p.takeLocked(dir, fault), true
	}
}

// takeLocked takes the head of the queue, or as much of it as the bandwidth lets through at once.
func (p *pair) takeLocked(dir int, fault Fault) piece {
	f := p.flows[dir]
	c := f.queue[0]
	if fault.Bandwidth > 0 && len(c.data) > 0 {
		// A twentieth of a second's worth at a time keeps the flow even.
		if part := max(fault.Bandwidth/20, 1); len(c.data) > part {
			f.queue[0].data = c.data[part:]
			c.data = c.data[:part]
		} else {
			f.queue = f.queue[1:]
		}
		f.free = time.Now().Add(time.Duration(len(c.data)) * time.Second / time.Duration(fault.Bandwidth))
	} else {
		f.queue = f.queue[1:]
	}
	f.bytes -= len(c.data)
	f.ended = c.end != notYet
	p.link.cond.Broadcast() // the reader may wait for room
	return c
}

// dropLocked throws the head of the queue away.
func (p *pair) dropLocked(dir int) {
	f := p.flows[dir]
	c := f.queue[0]
	f.queue = f.queue[1:]
	f.bytes -= len(c.data)
	p.link.cond.Broadcast()
	if f.broken {
		f.ended = c.end != notYet
		return
	}
	p.link.stats.Swallowed[dir] += len(c.data)
	f.tainted = true
	// A swallowed end does not end the direction: the receiver must stay silent until the pair is reset.
}

// abortLocked ends the pair at once, with a RST to both sides.
func (p *pair) abortLocked() {
	p.dead = true
	reset(p.client)
	p.abortServerLocked()
	p.link.cond.Broadcast()
}

// abortServerLocked ends the connection to the member, if there is one.
func (p *pair) abortServerLocked() {
	if p.server != nil {
		reset(p.server)
	}
}

// reset closes conn with a RST instead of an orderly end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // fails on a closed connection only
	_ = conn.Close()
}
