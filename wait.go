// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A waiter waits until nobody is ahead of its place.
//
// What can happen, and what it does:
//
//	the place ahead goes     read the line, unless it is known that it was the last; then wait for the next, or be first
//	its own key goes         ErrRevoked, at once once it is under watch (R10)
//	its session ends         the session's reason, at once
//	ctx ends                 ctx's error; the key is removed in the background
//	the watch breaks         it begins anew elsewhere; the line is read again, so nothing is missed
//	nothing, for a term      the line is read anyway: a watch can be silent for reasons nobody has thought of
//
// Keys with an older create revision only ever go away, so that a waiter that has seen the last of them go is first, if its
// own key was there at that revision. There are three ways to see it, and a waiter uses the cheapest that it can:
//
//	a place of this process is just ahead   it hands over when it is released (see neighbours.go): no watch, no read
//	one key is ahead in all                 a watch on the whole line shows its end and the own key in one order: no read
//	otherwise                               a watch on the key just ahead; when that goes, the line is read
//
// A watch on the whole line in every waiting process would wake all of them at every hand-over, so only the head of
// the line has one.
type waiter struct {
	*place
	own  *watch // on the own key; from a while after the beginning, so that a short wait does not pay for it
	line *watch // on target
	aim  string // the key just ahead, or the line's directory; "" while a neighbour is counted on
	// neighbour is the place of this process just ahead.
	neighbour *place
}

// sightings is what watches and neighbours have told; guarded by place.mu.
type sightings struct {
	gone   bool            // the own key was deleted or overwritten
	first  bool            // handed over by a neighbour, with proof
	stale  bool            // something is to be read
	passed bool            // the key just ahead has gone: the line is to be read, not only that key
	whole  bool            // the whole line is followed: its events tell when nobody is ahead
	synced bool            // it was read since its watch began: between the two nothing was missed
	ahead  map[string]bool // older keys, as read
	went   map[string]bool // keys seen to go since the watch on the whole line was asked for
}

// ownWatchAfter is how long a waiter waits before it puts its own key under watch.
const ownWatchAfter = youth / 2

// wait returns nil when nobody is ahead any more. a is what join has found.
func (p *place) wait(ctx context.Context, a ahead) error {
	if len(a.keys) == 0 {
		return nil
	}
	signal := p.listen()
	w := &waiter{place: p}
	defer w.stop()
	recheck := time.NewTimer(p.recheckAfter())
	defer recheck.Stop()
	settleIn := time.NewTimer(ownWatchAfter)
	defer settleIn.Stop()
	for len(a.keys) > 0 {
		var lost <-chan struct{}
		if w.aimAt(a); w.neighbour != nil {
			lost = w.neighbour.session.Done()
		}
		select {
		case <-signal:
		case <-settleIn.C:
			w.watchOwn()
		case <-recheck.C:
			p.tell(func(s *sightings) { s.stale, s.passed = true, true })
			recheck.Reset(p.recheckAfter())
		case <-lost: // it will not hand over: its key goes with its lease
			w.leaveNeighbour()
			p.tell(func(s *sightings) { s.stale, s.passed = true, true })
		case <-p.session.Done():
			return p.session.Err()
		case <-ctx.Done():
			return fmt.Errorf("%w, in line behind %s", ending(ctx), p.nameOf(a.keys[0]))
		}
		first, read, whole, err := w.look()
		switch {
		case err != nil:
			return err
		case first:
			return nil
		case read:
			if a, err = w.read(ctx, a, whole); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameOf says whose a key ahead is, for whoever has waited in vain.
func (p *place) nameOf(key string) string {
	if lease, _, ok := parsePlaceKey(p.dir, key); ok && lease == p.session.id {
		return "another place of the same session (locks are not re-entrant)"
	}
	return strconv.Quote(key)
}

// recheckAfter is within a term, and not at the same time for everybody.
func (p *place) recheckAfter() time.Duration {
	return p.session.granted/2 + rand.N(p.session.granted/2)
}

// aimAt makes the watches fit what is ahead.
func (w *waiter) aimAt(a ahead) {
	p := w.place
	if w.neighbour != nil && w.neighbour.key == a.keys[0] && !w.neighbour.left.Load() && !w.neighbour.wasTaken() {
		return
	}
	w.leaveNeighbour()
	if w.neighbour = p.follow(a.keys[0]); w.neighbour != nil {
		w.aimNowhere()
		return
	}
	target := a.keys[0]
	if a.all && len(a.keys) == 1 {
		target = p.dir
	}
	if target == w.aim {
		return
	}
	w.aimNowhere()
	whole := target == p.dir
	w.aim = target
	p.mu.Lock()
	p.seen.whole, p.seen.synced, p.seen.passed = whole, false, false
	p.seen.ahead, p.seen.went = nil, make(map[string]bool)
	p.mu.Unlock()
	s := p.session
	if whole {
		w.line = s.engine.watcher.watch(s, p.dir, clientv3.GetPrefixRangeEnd(p.dir), p)
		w.stopOwn() // the line shows it too
		return
	}
	var since int64
	if w.line, since = s.engine.watcher.watchGoing(s, target, p); since > int64(p.token) {
		p.tell(func(s *sightings) { s.stale, s.passed = true, true }) // it went before the watch was ours
	}
}

func (w *waiter) aimNowhere() {
	if w.line != nil {
		w.session.engine.watcher.stop(w.line)
	}
	w.line, w.aim = nil, ""
	w.mu.Lock()
	w.seen.whole = false
	w.mu.Unlock()
}

// watchOwn puts the own key under watch, unless the whole line is.
func (w *waiter) watchOwn() {
	if w.own == nil && w.aim != w.dir {
		w.own = w.session.engine.watcher.watch(w.session, w.key, "", w.place)
	}
}

func (w *waiter) stopOwn() {
	if w.own != nil {
		w.session.engine.watcher.stop(w.own)
		w.own = nil
	}
}

func (w *waiter) stop() {
	w.stopOwn()
	w.aimNowhere()
	w.leaveNeighbour()
}

func (w *waiter) leaveNeighbour() {
	if w.neighbour != nil {
		w.unfollow(w.neighbour)
		w.neighbour = nil
	}
}

// look takes what was told since the last look. whole: the whole line is to be read, not only the key just ahead.
func (w *waiter) look() (first, read, whole bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &w.seen
	if s.gone {
		return false, false, false, w.revoked()
	}
	if s.first {
		return true, false, false, nil
	}
	read, whole = s.stale, s.passed || s.whole
	s.stale, s.passed = false, false
	if read && s.whole {
		clear(s.went) // what goes from here on can overtake the answer of the read
	}
	return !read && s.whole && s.synced && len(s.ahead) == 0, read, whole, nil
}

// read finds out what a watch may have missed before it began, or what is ahead after something has gone.
func (w *waiter) read(ctx context.Context, a ahead, whole bool) (ahead, error) {
	p := w.place
	if !whole {
		resp, err := p.session.engine.read(ctx, p.session,
			clientv3.OpGet(p.key), clientv3.OpGet(a.keys[0], clientv3.WithKeysOnly(), clientv3.WithMaxCreateRev(int64(p.token)-1)))
		if err != nil {
			return ahead{}, err
		}
		if own := resp.Responses[0].GetResponseRange().GetKvs(); len(own) == 0 || !p.intact(own[0]) {
			return ahead{}, p.revoked()
		}
		if len(resp.Responses[1].GetResponseRange().GetKvs()) > 0 {
			return a, nil // the same, and not a later use of its key, which would stand behind
		}
	}
	a, err := p.readLine(ctx)
	if err != nil {
		return ahead{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := &p.seen; s.whole {
		s.synced = !s.stale // a watch that began again during the read may have missed something after it
		s.ahead = make(map[string]bool, len(a.keys))
		for _, key := range a.keys {
			// Events can overtake the answer of a read. What they saw go is gone: a key that comes back is younger.
			if !s.went[key] {
				s.ahead[key] = true
			}
		}
	}
	return a, nil
}

// tell changes what was seen and wakes the waiter.
func (p *place) tell(f func(*sightings)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.seen)
	p.signal.ring()
}

// listen returns the channel by which tell wakes the waiter.
func (p *place) listen() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal = newBell()
	p.signal.ring() // it looks once in any case
	return p.signal
}

// opened: what happened before the watch began is to be read.
func (p *place) opened() {
	p.tell(func(s *sightings) { s.stale, s.synced = true, false })
}

// saw takes events of the own key, of the key ahead or of the whole line. They come in the order of their revisions, and those
// of one revision come together, so they are taken together: a transaction that removes the key ahead and the own one
// must not look like the one without the other.
//
// "From now" is the now of the member that serves the watch, which may lag: what happened before the own key was put
// comes too, and says nothing. A key that was deleted then may have come back, still ahead.
func (p *place) saw(events []*mvccpb.Event) {
	var gone bool
	var went []string
	for _, ev := range events {
		kv := ev.GetKv()
		deleted := ev.GetType() == mvccpb.Event_DELETE
		switch {
		case kv.GetModRevision() < int64(p.token):
		case string(kv.GetKey()) == p.key:
			gone = gone || deleted || !p.intact(kv)
		case deleted:
			went = append(went, string(kv.GetKey()))
		}
	}
	if !gone && len(went) == 0 {
		return
	}
	p.tell(func(s *sightings) {
		s.gone = s.gone || gone
		if len(went) > 0 && !s.whole {
			s.stale, s.passed = true, true
			return
		}
		for _, key := range went {
			s.went[key] = true
			delete(s.ahead, key)
		}
	})
}

var _ subscriber = (*place)(nil)
