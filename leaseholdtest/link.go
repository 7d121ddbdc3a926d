// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// Direction tells the two directions of a [Link] apart. They can be combined.
type Direction uint8

// The directions of a link, named from the side that dials.
const (
	Up   Direction = 1 << iota // from the side that dialled to the member: a client's requests
	Down                       // from the member to the side that dialled: answers, watch events
	Both = Up | Down
)

// Fault is what a [Link] does to the bytes of one direction. The zero value passes them on at once.
type Fault struct {
	// Delay is how long every byte is on its way.
	Delay time.Duration
	// Jitter is the upper bound of a random time that is added to Delay, by the piece that was read at once.
	// Bytes keep their order.
	Jitter time.Duration
	// Bandwidth is how many bytes a second get through; 0 sets no limit.
	Bandwidth int
	// Hold keeps the bytes and delivers them when it is switched off: a network that loses every packet, until
	// TCP's repetitions get through. New connections are accepted and then silent.
	Hold bool
	// Swallow loses the bytes for good, and nobody is told: a network that loses every packet for longer than
	// a connection lives. New connections are accepted and then silent. A connection that has lost bytes carries
	// nothing any more; it is reset when neither direction swallows.
	Swallow bool
}

func (f Fault) blocks() bool { return f.Hold || f.Swallow }

// Link is the path from one client, or one member, to one member: a TCP proxy on the loopback interface. All
// connections on the path share the link and its faults, which can be changed at any time and take effect at once,
// also for bytes on their way. A link passes everything on until it is told otherwise.
//
// While its member is down, a link answers as the dead member's machine would: it resets connections, unless a
// fault keeps that from being heard.
//
// A Link is safe for concurrent use.
type Link struct {
	listener net.Listener // nil for a link between members, whose connections are accepted by the member's gate
	target   netip.AddrPort
	wg       sync.WaitGroup // every goroutine of the link and of its connections

	// mu guards all that follows, and the queues of the link's connections. It is never held across a read or a
	// write of the network. cond is told of every change.
	mu     sync.Mutex
	cond   *sync.Cond
	faults [2]Fault // what the user asked for, by direction
	cut    [2]bool  // swallow, because the two members are cut off from each other
	frozen int      // hold both directions, because that many of the link's ends are paused
	refuse bool     // reset whatever connects
	down   bool     // the member does not run
	closed bool
	pairs  map[*pair]struct{}
	stats  LinkStats
}

// LinkStats counts what happened on a link so far.
type LinkStats struct {
	Open      int    // connections open now, silent ones included
	Accepted  int    // connections accepted so far
	Forwarded [2]int // bytes delivered so far, up and down
	Swallowed [2]int // bytes lost so far, up and down
	Held      [2]int // bytes that wait for delivery now, up and down
}

// newLink makes a link to target that accepts connections at [Link.addr].
func newLink(target netip.AddrPort) (*Link, error) {
	l := newPeerLink(target)
	var err error
	if l.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	l.wg.Go(l.accept)
	return l, nil
}

// newPeerLink makes a link to target that is handed its connections by [Link.adopt].
func newPeerLink(target netip.AddrPort) *Link {
	l := &Link{target: target, pairs: make(map[*pair]struct{})}
	l.cond = sync.NewCond(&l.mu)
	return l
}

// addr is where a client finds the link.
func (l *Link) addr() string { return l.listener.Addr().String() }

// url is addr as an endpoint of a client.
func (l *Link) url() string { return "http://" + l.addr() }

// Set replaces the fault of the given directions.
func (l *Link) Set(d Direction, f Fault) {
	l.change(func() { l.eachFault(d, func(old *Fault) { *old = f }) })
}

// Fault returns the fault of direction d, which is [Up] or [Down].
func (l *Link) Fault(d Direction) Fault {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d == Down {
		return l.faults[down]
	}
	return l.faults[up]
}

// Hold keeps the bytes of the given directions until [Link.Release]. See [Fault].
func (l *Link) Hold(d Direction) {
	l.change(func() { l.eachFault(d, func(f *Fault) { f.Hold = true }) })
}

// Release ends [Link.Hold]: what was kept is delivered.
func (l *Link) Release(d Direction) {
	l.change(func() { l.eachFault(d, func(f *Fault) { f.Hold = false }) })
}

// Delay makes every byte of the given directions take delay and up to jitter longer.
func (l *Link) Delay(d Direction, delay, jitter time.Duration) {
	l.change(func() { l.eachFault(d, func(f *Fault) { f.Delay, f.Jitter = delay, jitter }) })
}

// Limit lets bytesPerSecond through in each of the given directions; 0 ends the limit.
func (l *Link) Limit(d Direction, bytesPerSecond int) {
	l.change(func() { l.eachFault(d, func(f *Fault) { f.Bandwidth = bytesPerSecond }) })
}

// Blackhole loses whatever goes in the given directions, and resets nothing. See [Fault] for what becomes of the
// connections; to have the bytes delivered afterwards, use [Link.Hold].
func (l *Link) Blackhole(d Direction) {
	l.change(func() { l.eachFault(d, func(f *Fault) { f.Swallow = true }) })
}

// Reset ends all connections of the link with a RST, to both sides. What they held is lost. New connections are
// accepted.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := range l.pairs {
		p.abortLocked()
	}
}

// Refuse does as [Link.Reset], and resets new connections as well, until [Link.Heal].
func (l *Link) Refuse() {
	l.change(func() {
		l.refuse = true
		for p := range l.pairs {
			p.abortLocked()
		}
	})
}

// Heal ends all faults that the link's other methods have set. What was held is delivered; connections that lost
// bytes are reset. A member that is paused, down or cut off stays so.
func (l *Link) Heal() {
	l.change(func() { l.faults, l.refuse = [2]Fault{}, false })
}

// Stats returns the link's counters.
func (l *Link) Stats() LinkStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.Open = len(l.pairs)
	for p := range l.pairs {
		s.Held[up] += p.flows[up].bytes
		s.Held[down] += p.flows[down].bytes
	}
	return s
}

// close ends the link and all its connections, and waits for its goroutines. It is idempotent.
func (l *Link) close() {
	l.change(func() { l.closed = true })
	if l.listener != nil {
		_ = l.listener.Close() // a second close has nothing left to do
	}
	l.Reset()
	l.wg.Wait()
}

// setCut cuts the link in the given direction, or mends it.
func (l *Link) setCut(dir int, cut bool) { l.change(func() { l.cut[dir] = cut }) }

// freeze holds both directions until thaw is called as often.
func (l *Link) freeze() { l.change(func() { l.frozen++ }) }
func (l *Link) thaw()   { l.change(func() { l.frozen-- }) }

// setDown tells the link whether its member runs. When the member goes down, its ends of the connections are
// reset, so that its server need not wait for them; the other ends hear of it subject to the faults.
func (l *Link) setDown(isDown bool) {
	l.change(func() {
		l.down = isDown
		if !isDown {
			return
		}
		for p := range l.pairs {
			p.abortServerLocked()
		}
	})
}

// change makes a change under the lock, and then what follows from it.
func (l *Link) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	if !l.effectiveLocked(up).Swallow && !l.effectiveLocked(down).Swallow {
		for p := range l.pairs {
			if p.flows[up].tainted || p.flows[down].tainted {
				p.abortLocked()
			}
		}
	}
	l.cond.Broadcast()
}

// effectiveLocked is what happens to the bytes of direction dir, from whatever cause.
func (l *Link) effectiveLocked(dir int) Fault {
	f := l.faults[dir]
	f.Hold = f.Hold || l.frozen > 0
	f.Swallow = f.Swallow || l.cut[dir]
	return f
}

func (l *Link) eachFault(d Direction, change func(*Fault)) {
	if d&Up != 0 {
		change(&l.faults[up])
	}
	if d&Down != 0 {
		change(&l.faults[down])
	}
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // only the link's close ends the listener
		}
		l.adopt(conn.(*net.TCPConn), nil)
	}
}

// adopt takes over a connection from the side that dials, of which first has been read already.
func (l *Link) adopt(conn *net.TCPConn, first []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.refuse {
		reset(conn)
		return
	}
	l.stats.Accepted++
	p := newPair(l, conn, first)
	l.pairs[p] = struct{}{}
	l.wg.Go(p.run)
}
