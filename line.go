// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A place is one acquisition's place in the line of a name: a key of its own, put once. The oldest create revision of
// the line is the holder. Locks and elections use the same line.
//
// The life of a place:
//
//	join     the key is put; the answer tells who is ahead (one round trip)
//	wait     until nobody is ahead any more
//	held     by a grant
//	leave    the key is deleted, from any state, and looked for until no attempt can put it again (R9)
//
// What can happen to a waiter, and what it does:
//
//	the place ahead goes     read the line, unless the whole line was followed; then it is first, or watches the next
//	its own key goes         ErrRevoked, at once (R10)
//	its session ends         the session's reason, at once
//	ctx ends                 ctx's error; the key is removed in the background
//	the watch breaks         it begins anew elsewhere; the line is read again, so nothing is missed
//	nothing, for a term      the line is read anyway: a watch can be silent for reasons nobody has thought of
//
// Keys with an older create revision only ever go away, so a waiter that has seen the last of them go is first, if its own
// key was there at that revision. One watch on the whole range shows both in one order. It would wake every waiting
// process at every hand-over, so only the head of the line can afford it: the others watch their own key and the one
// ahead of them, and read when that goes.
type place struct {
	session *Session
	name    string
	dir     string // of the line, with its final slash
	key     string
	acquire *write // how the key is put; set before the place can be left
	token   Token  // the create revision; 0 until known
	absent  bool   // the answer said that the key was not put

	// signal wakes the waiter; holds one. The fields below it are guarded by mu.
	signal chan struct{}
	mu     sync.Mutex
	gone   bool            // the own key was seen to be deleted or overwritten
	stale  bool            // the line must be read
	whole  bool            // the whole line is followed: its events tell when nobody is ahead
	synced bool            // it was read since its watch began: between the two nothing was missed
	ahead  map[string]bool // older keys, as read
	went   map[string]bool // keys seen to go since the watch on the whole line was asked for
	value  string          // as last known to be put, at revision mod
	mod    int64
	maybe  []string // values of proclamations since, whose outcome is not known

	left atomic.Bool // the place was given up or released
}

// newPlace prepares a place, which the caller has counted in the session's load; nothing is sent.
func (s *Session) newPlace(name, value string) *place {
	dir := lineDir(s.cfg.Prefix, name)
	return &place{
		session: s, name: name, dir: dir, value: value,
		key:    placeKey(dir, s.id, s.sequence.Add(1)),
		signal: make(chan struct{}, 1),
	}
}

func (p *place) put() clientv3.Op {
	return clientv3.OpPut(p.key, p.value, clientv3.WithLease(p.session.id))
}

// size is roughly what the place adds to a transaction.
func (p *place) size() int { return 4*len(p.key) + len(p.value) + 128 }

// lastOfLine reads the two youngest keys of the line: after the put, the own one and the one ahead of it.
func (p *place) lastOfLine() clientv3.Op {
	return clientv3.OpGet(p.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(2),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend))
}

// join takes the place and reports who is ahead: the keys known to be older, and whether these are all.
func (p *place) join(ctx context.Context) (older []string, all bool, err error) {
	p.acquire = &write{
		line: p.dir, size: p.size(),
		cmps: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)},
		then: []clientv3.Op{p.put(), p.lastOfLine()},
		els:  []clientv3.Op{clientv3.OpGet(p.key)}, // an attempt before this one was applied
	}
	resp, err := p.session.engine.writes.await(ctx, p.session, p.acquire)
	if err != nil {
		return nil, false, p.refused(err)
	}
	if !resp.Succeeded {
		own := resp.Responses[0].GetResponseRange().GetKvs()
		if len(own) == 0 {
			return nil, false, ErrRevoked // cannot be: the compare found it
		}
		p.took(own[0])
		return p.readLine(ctx)
	}
	line := resp.Responses[1].GetResponseRange()
	for _, kv := range line.GetKvs() {
		if string(kv.GetKey()) == p.key {
			p.took(kv)
		} else {
			older = append(older, string(kv.GetKey()))
		}
	}
	return older, line.GetCount() <= 2, nil
}

// took notes the token, from the key itself and not from a header, which tells nothing if the request was sent twice (R8).
func (p *place) took(kv *mvccpb.KeyValue) {
	p.token = Token(kv.GetCreateRevision())
	p.mu.Lock()
	p.mod = kv.GetModRevision()
	p.mu.Unlock()
}

// refused turns an error of an acquire into what callers branch on: etcd refuses a key whose lease it does not know.
func (p *place) refused(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		p.session.lose(ErrRevoked)
		return p.session.Err()
	}
	return err
}

// readLine reads the own key and the two places ahead of it, through the leader.
func (p *place) readLine(ctx context.Context) (older []string, all bool, err error) {
	resp, err := p.session.engine.read(ctx, p.session,
		clientv3.OpGet(p.key),
		clientv3.OpGet(p.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(2),
			clientv3.WithMaxCreateRev(int64(p.token)-1), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)))
	if err != nil {
		return nil, false, err
	}
	own := resp.Responses[0].GetResponseRange().GetKvs()
	if len(own) == 0 || !p.intact(own[0]) {
		return nil, false, fmt.Errorf("%w: key %s", ErrRevoked, p.key)
	}
	for _, kv := range resp.Responses[1].GetResponseRange().GetKvs() {
		older = append(older, string(kv.GetKey()))
	}
	return older, len(older) < 2, nil
}

// intact reports whether kv is the own key as we put it: with our lease and a value that we put or may have put. What
// was there before the last revision that we know is past: our own write compared it.
func (p *place) intact(kv *mvccpb.KeyValue) bool {
	if Token(kv.GetCreateRevision()) != p.token {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if kv.GetModRevision() < p.mod {
		return true
	}
	value := string(kv.GetValue())
	return clientv3.LeaseID(kv.GetLease()) == p.session.id && (value == p.value || slices.Contains(p.maybe, value))
}

// wait returns nil when nobody is ahead any more. older and all are what join has found.
func (p *place) wait(ctx context.Context, older []string, all bool) error {
	s := p.session
	w := s.engine.watcher
	var own, line *watch
	defer func() {
		if own != nil {
			w.stop(own)
		}
		if line != nil {
			w.stop(line)
		}
	}()
	var watched string // what line watches: a key, or the whole line as its directory
	recheck := time.NewTimer(p.recheckAfter())
	defer recheck.Stop()
	for len(older) > 0 {
		target := older[0]
		if all && len(older) == 1 {
			target = p.dir
		}
		if target != watched {
			// The new watch is opened before the old one is stopped, and the line is read once it is open.
			before := line
			p.follow(target == p.dir)
			if watched = target; target == p.dir {
				line = w.watch(s, p.dir, clientv3.GetPrefixRangeEnd(p.dir), p.key, p)
			} else {
				line = w.watch(s, target, "", p.key, p)
				if own == nil {
					own = w.watch(s, p.key, "", p.key, p)
				}
			}
			if before != nil {
				w.stop(before)
			}
			if target == p.dir && own != nil {
				w.stop(own)
				own = nil
			}
		}
		select {
		case <-p.signal:
		case <-recheck.C:
			p.mu.Lock()
			p.stale = true
			p.mu.Unlock()
			recheck.Reset(p.recheckAfter())
		case <-s.Done():
			return s.Err()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		first, read, err := p.look()
		switch {
		case err != nil:
			return err
		case first:
			return nil
		case read:
			if older, all, err = p.readLine(ctx); err != nil {
				return err
			}
			p.note(older)
		}
	}
	return nil
}

// recheckAfter is within a term, and not at the same time for everybody.
func (p *place) recheckAfter() time.Duration {
	return p.session.granted/2 + rand.N(p.session.granted/2)
}

// follow begins to follow the whole line, or only parts of it.
func (p *place) follow(whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole, p.synced = whole, false
	p.ahead, p.went = nil, nil
	if whole {
		p.went = make(map[string]bool)
	}
}

// note takes what a read has found ahead. Events can overtake the answer of a read: what they saw go is gone, because a
// key that comes back is younger than ours.
func (p *place) note(older []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.whole {
		return
	}
	p.synced = !p.stale // a watch that began again during the read may have missed something after it
	p.ahead = make(map[string]bool, len(older))
	for _, key := range older {
		if !p.went[key] {
			p.ahead[key] = true
		}
	}
}

// look takes what the watches have told.
func (p *place) look() (first, read bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return false, false, fmt.Errorf("%w: key %s", ErrRevoked, p.key)
	}
	read, p.stale = p.stale, false
	return !read && p.synced && len(p.ahead) == 0, read, nil
}

// opened: what happened before the watch began is to be read.
func (p *place) opened() {
	p.mu.Lock()
	p.stale, p.synced = true, false
	p.mu.Unlock()
	p.wakeWaiter()
}

// saw takes events of the own key, of the key ahead or of the whole line. They come in the order of their revisions.
func (p *place) saw(events []*mvccpb.Event) {
	for _, ev := range events {
		kv := ev.GetKv()
		key := string(kv.GetKey())
		switch deleted := ev.GetType() == mvccpb.Event_DELETE; {
		case key == p.key && (deleted || !p.intact(kv)):
			p.mu.Lock()
			p.gone = true
			p.mu.Unlock()
		case deleted:
			p.mu.Lock()
			if p.whole {
				p.went[key] = true
				delete(p.ahead, key)
			} else {
				p.stale = true
			}
			p.mu.Unlock()
		default:
			continue
		}
		p.wakeWaiter()
	}
}

func (p *place) wakeWaiter() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// settled reports whether no attempt can put the key any more.
func (p *place) settled() bool {
	settled, _ := p.session.engine.writes.outcome(p.acquire)
	return settled
}

// leave removes the place in the background, whatever became of the attempts to take it.
func (p *place) leave() {
	if p.left.Swap(true) {
		return
	}
	defer p.session.unload()
	writes := p.session.engine.writes
	writes.abandon(p.acquire)
	settled, applied := writes.outcome(p.acquire)
	if !settled || (applied && !p.absent) {
		p.delete(int64(p.token))
	}
	if !settled {
		p.session.engine.janitor.search(p)
	}
}

// delete deletes the key in the background, until the answer is known or the session has ended. created is its create
// revision, or 0 if that is unknown: then the key is ours because nobody else can have its name.
func (p *place) delete(created int64) {
	w := p.deletion(created)
	w.done = func(*clientv3.TxnResponse, error) {}
	p.session.engine.writes.submit(w)
}

// deletion compares the create revision, and only that: neither a foreign value nor a stripped lease makes the key less
// ours, and no late attempt can delete a later key (R9).
func (p *place) deletion(created int64) *write {
	cmp := clientv3.Compare(clientv3.CreateRevision(p.key), "=", created)
	if created == 0 {
		cmp = clientv3.Compare(clientv3.CreateRevision(p.key), ">", 0)
	}
	return &write{
		line: p.dir, size: p.size(),
		cmps:   []clientv3.Cmp{cmp},
		then:   []clientv3.Op{clientv3.OpDelete(p.key)},
		wanted: func() bool { return !p.session.ended() },
	}
}

var _ subscriber = (*place)(nil)
