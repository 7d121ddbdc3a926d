// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Link is the network between one client host and one member. Up is the direction to the member. Changes hold for
// bytes sent from then on, except holding back, which also holds what is under way. Safe for concurrent use.
type Link struct {
	host   *Host
	member *Member

	mu      sync.Mutex
	ways    [2]way // up, down
	refused bool
	ends    []*conn       // every end that was not closed
	changed chan struct{} // closed and replaced when dials should look again
}

// way is one direction of a link. What is random about it is a function of its own seed and the instant: gRPC may
// split what it sends at one instant into any number of writes, which all meet the same fate.
type way struct {
	delay, jitter time.Duration
	loss          float64
	holds         int // how many reasons there are to hold bytes back
	held          bool
	seed          uint64
}

func (w *way) rng(t time.Time) *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(t.UnixNano()))) }

func newLink(h *Host, m *Member) *Link {
	l := &Link{host: h, member: m, changed: make(chan struct{})}
	for i := range l.ways {
		l.ways[i].seed = rand.NewPCG(h.cluster.opts.Seed, uint64(h.number)<<16|uint64(m.number)<<1|uint64(i)).Uint64()
	}
	return l
}

// SetDelay sets how long bytes take to the member and back.
func (l *Link) SetDelay(up, down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[0].delay, l.ways[1].delay = up, down
}

// SetJitter adds to each delay a random part below the one given. Bytes of one connection still arrive in order.
func (l *Link) SetJitter(up, down time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[0].jitter, l.ways[1].jitter = up, down
}

// SetLoss sets the probability with which what is sent at one instant resets its connection instead of arriving.
func (l *Link) SetLoss(up, down float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ways[0].loss, l.ways[1].loss = up, down
}

// Hold keeps all bytes of the chosen directions in the network, those under way included, until Release. New connections
// wait as well. Nobody is told: this is a blackhole that forgets nothing.
func (l *Link) Hold(up, down bool) { l.setHeld(up, down, true) }

// Release delivers what the chosen directions held, in order, and lets bytes pass again.
func (l *Link) Release(up, down bool) { l.setHeld(up, down, false) }

func (l *Link) setHeld(up, down, held bool) {
	for i, chosen := range []bool{up, down} {
		l.mu.Lock()
		change := chosen && l.ways[i].held != held
		if change {
			l.ways[i].held = held
		}
		l.mu.Unlock()
		if change {
			l.addHold(i, held)
		}
	}
}

// addHold adds or takes away one reason to hold back bytes of a direction.
func (l *Link) addHold(direction int, on bool) {
	l.mu.Lock()
	if on {
		l.ways[direction].holds++
	} else {
		l.ways[direction].holds--
	}
	ends := slices.Clone(l.ends)
	l.announceLocked()
	l.mu.Unlock()
	for _, c := range ends {
		c.in.wake()
	}
}

// Reset breaks every open connection, on both sides at once.
func (l *Link) Reset() {
	for _, c := range l.open() {
		c.reset()
	}
}

// Refuse resets open connections and makes new ones fail until Accept.
func (l *Link) Refuse() {
	l.mu.Lock()
	l.refused = true
	l.announceLocked()
	l.mu.Unlock()
	l.Reset()
}

// Accept ends Refuse.
func (l *Link) Accept() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = false
}

// Connections returns how many connections the client believes to be open.
func (l *Link) Connections() int {
	n := 0
	for _, c := range l.open() {
		if c.out.up {
			n++
		}
	}
	return n
}

func (l *Link) open() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ends)
}

// hangUp closes the member's ends, as a process that dies does. A link that holds bytes back hides it from the client.
func (l *Link) hangUp() {
	for _, c := range l.open() {
		if !c.out.up {
			_ = c.end(errReset) // never fails
		}
	}
}

func (l *Link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends = slices.DeleteFunc(l.ends, func(e *conn) bool { return e == c })
}

func (l *Link) announceLocked() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// dial opens a connection: one trip up, one down, held and refused like bytes.
func (l *Link) dial(ctx context.Context) (net.Conn, error) {
	if err := sleep(ctx, l.draw(true)+l.draw(false)); err != nil {
		return nil, err
	}
	for {
		l.mu.Lock()
		held := l.ways[0].holds > 0 || l.ways[1].holds > 0
		refused, changed := l.refused || !l.member.listening.Load(), l.changed
		if !held && !refused {
			c, s := newConnPair(l, l.host.name, l.member.address)
			l.ends = append(l.ends, c, s)
			l.mu.Unlock()
			if err := l.member.listener.offer(ctx, s); err != nil {
				c.reset()
				s.reset()
				return nil, err
			}
			return c, nil
		}
		l.mu.Unlock()
		if !held {
			return nil, &net.OpError{Op: "dial", Net: "fake", Err: syscall.ECONNREFUSED}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *Link) draw(up bool) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.way(up)
	d := w.delay
	if w.jitter > 0 {
		d += time.Duration(w.rng(time.Now()).Int64N(int64(w.jitter)))
	}
	return d
}

func (l *Link) loses(up bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.way(up)
	return w.loss > 0 && w.rng(time.Now().Add(1)).Float64() < w.loss // not the number that makes the jitter
}

func (l *Link) holds(up bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.way(up).holds > 0
}

func (l *Link) way(up bool) *way {
	if up {
		return &l.ways[0]
	}
	return &l.ways[1]
}

// sleep waits for d or the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
