// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
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
//	wait     until nobody is ahead any more (see waiter)
//	held     by a grant
//	leave    the key is deleted, from any state, and looked for until no attempt can put it again (R9)
//
// Keys. A place's key has the lease and a slot number in it. A slot is used again only when its key is known to be gone and no
// attempt to put it can be applied any more: keys that are never used again would fill the store's index, where each costs
// every later look at the line until the store is compacted.
type place struct {
	session  *Session
	name     string
	dir      string // of the line, with its final slash
	slot     uint64
	key      string
	acquire  *write // how the key is put; set before the place can be left; nil: put, and no attempt can put it any more
	token    Token  // the create revision; 0 until known
	stranger bool   // the key is somebody else's
	floor    int64  // what the token must be above: the store had come as far before the key was put

	left   atomic.Bool // the place was given up or released
	freed  atomic.Bool // the slot was given back
	sought atomic.Bool // the janitor looks for the key

	mu     sync.Mutex // a leaf; it guards the fields below
	signal bell       // wakes the waiter; nil until it waits
	value  string     // as last known to be put, at revision mod
	mod    int64
	maybe  []string // values of proclamations since, whose outcome is not known
	seen   sightings
	behind *place // the place of this process right behind, which counts on being told; nil: none
	lost   bool   // the key was taken by somebody else
}

// newPlace prepares a place, which the caller has counted in the session's load; nothing is sent.
func (s *Session) newPlace(name, value string) *place {
	dir := lineDir(s.cfg.Prefix, name)
	p := &place{session: s, name: name, dir: dir, value: value, floor: s.engine.mark.floor()}
	s.slots.take(p)
	return p
}

// slots are the numbers that make the keys of a session's places different. The lowest that is free in the line is taken, so that
// few keys of a name are ever used.
type slots struct {
	mu    sync.Mutex          // a leaf
	lines map[string][]*place // by directory and slot; nil where the slot is free; no line without a place
}

// take gives p a slot, and the key that follows from it before anybody can find p there.
func (s *slots) take(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == nil {
		s.lines = make(map[string][]*place)
	}
	line := s.lines[p.dir]
	slot := slices.Index(line, nil)
	if slot < 0 {
		slot = len(line)
		line = append(line, nil)
		s.lines[p.dir] = line
	}
	p.slot = uint64(slot)
	p.key = placeKey(p.dir, p.session.id, p.slot)
	line[slot] = p
}

func (s *slots) giveBack(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[p.dir]
	line[p.slot] = nil
	n := len(line)
	for n > 0 && line[n-1] == nil {
		n--
	}
	if n == 0 {
		delete(s.lines, p.dir)
	} else {
		s.lines[p.dir] = line[:n]
	}
}

// at returns the place that has the slot in the line, or nil.
func (s *slots) at(dir string, slot uint64) *place {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := s.lines[dir]
	if slot >= uint64(len(line)) {
		return nil
	}
	return line[slot]
}

// keys are those of all places.
func (s *slots) keys() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make(map[string]bool)
	for _, line := range s.lines {
		for _, p := range line {
			if p != nil {
				keys[p.key] = true
			}
		}
	}
	return keys
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

// ahead is what is known of the keys that are older than one's own.
type ahead struct {
	keys []string // the one just ahead first; not necessarily all
	all  bool     // no other is older
}

// join takes the place and reports who is ahead.
func (p *place) join(ctx context.Context) (ahead, error) {
	p.acquire = &write{
		line: p.dir, size: p.size(),
		cmps: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.key), "=", 0)},
		then: []clientv3.Op{p.put(), p.lastOfLine()},
		els:  []clientv3.Op{clientv3.OpGet(p.key)}, // an attempt before this one was applied
	}
	resp, err := p.session.engine.writes.await(ctx, p.session, p.acquire)
	if err != nil {
		return ahead{}, p.refused(ctx, err)
	}
	if !resp.Succeeded {
		own := resp.Responses[0].GetResponseRange().GetKvs()
		if len(own) == 0 {
			return ahead{}, errOddAnswer
		}
		if !p.ours(own[0]) {
			return ahead{}, errStranger
		}
		if err := p.took(own[0]); err != nil {
			return ahead{}, err
		}
		return p.readLine(ctx)
	}
	line := resp.Responses[1].GetResponseRange()
	a := ahead{all: line.GetCount() <= 2}
	for _, kv := range line.GetKvs() {
		if string(kv.GetKey()) == p.key {
			err = p.took(kv)
		} else {
			a.keys = append(a.keys, string(kv.GetKey()))
		}
	}
	if p.token == 0 {
		return ahead{}, errOddAnswer
	}
	return a, err
}

// errOddAnswer: the store contradicts itself; nothing that follows from the answer can be believed.
var errOddAnswer = errors.New("etcd answered without the key that it has just put or compared")

// took notes the token, from the key itself and not from a header, which tells nothing if the request was sent twice (R8).
// A token that is not above all that was seen before comes from a store that went back by just so much.
func (p *place) took(kv *mvccpb.KeyValue) error {
	p.mu.Lock()
	p.token, p.mod = Token(kv.GetCreateRevision()), kv.GetModRevision()
	p.mu.Unlock()
	if int64(p.token) <= p.floor {
		p.session.engine.rolledBack()
		return ErrRolledBack
	}
	if p.settled() {
		p.acquire = nil // a grant may be held for long, by the ten thousand
	}
	return nil
}

// ours reports whether a key that was there before the last attempt is of this session: put by one of the attempts before
// or, if it is older, brought back by a store that went back, which took then says. A key of that name under another lease
// is a stranger's, to be left alone.
func (p *place) ours(kv *mvccpb.KeyValue) bool {
	return clientv3.LeaseID(kv.GetLease()) == p.session.id
}

// errStranger: somebody else has put a key of the name that this place was to have, or has overwritten it before an answer told
// us that we had put it.
var errStranger = fmt.Errorf("%w: the key of the place is somebody else's", ErrRevoked)

// refused turns an error of an acquire into what callers branch on. When etcd does not know the lease, the answer to a
// renewal tells why: a refusal says nothing of the cluster that it comes from.
//
// An error of a context that has ended names the last attempt, and says nothing of this lease by that: the attempt may have been
// shared with a place of another session.
func (p *place) refused(ctx context.Context, err error) error {
	if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return err
	}
	if ctx.Err() != nil {
		return ending(ctx)
	}
	s := p.session
	s.engine.keeper.hurry(s)
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	select {
	case <-s.Done():
	case <-patience.C:
		s.lose(ErrRevoked)
	case <-ctx.Done():
		return ending(ctx) // the renewal under way tells the session
	}
	return s.Err()
}

// readLine reads the own key and the two places ahead of it, through the leader.
func (p *place) readLine(ctx context.Context) (ahead, error) {
	resp, err := p.session.engine.read(ctx, p.session,
		clientv3.OpGet(p.key),
		clientv3.OpGet(p.dir, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(2),
			clientv3.WithMaxCreateRev(int64(p.token)-1), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)))
	if err != nil {
		return ahead{}, err
	}
	if own := resp.Responses[0].GetResponseRange().GetKvs(); len(own) == 0 || !p.intact(own[0]) {
		return ahead{}, p.revoked()
	}
	var a ahead
	for _, kv := range resp.Responses[1].GetResponseRange().GetKvs() {
		a.keys = append(a.keys, string(kv.GetKey()))
	}
	a.all = len(a.keys) < 2
	return a, nil
}

func (p *place) revoked() error { return fmt.Errorf("%w: key %s", ErrRevoked, p.key) }

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

// leave removes the place in the background, whatever became of the attempts to take it.
func (p *place) leave() {
	behind, first := p.depart()
	if !first {
		return
	}
	defer p.session.unload()
	defer behind.lookYourself() // again when the key is known to be gone
	writes := p.session.engine.writes
	settled, put := true, true
	if p.acquire != nil {
		writes.abandon(p.acquire)
		settled, put = writes.outcome(p.acquire)
	}
	switch {
	case p.stranger: // nothing of ours is there, and the slot is of no use
	case p.token != 0:
		p.delete(int64(p.token), behind)
	case !settled || put:
		p.session.engine.janitor.search(p) // a deletion that compares nothing could be applied to a later use of the key
	default:
		p.freeSlot() // nothing was put, and nothing will be
	}
}

// delete deletes the key with that create revision in the background, until the answer is known or the session has
// ended; a key that was taken from us is one of the session's strays. behind, if not nil, is told.
func (p *place) delete(created int64, behind *place) {
	settled := p.settled()
	w := p.deletion(created)
	leave := func() {}
	if p.wasTaken() {
		w.wanted, leave = p.session.stray()
	}
	w.done = func(resp *clientv3.TxnResponse, err error) {
		defer leave()
		behind.lookYourself()
		p.deleted(settled && err == nil && resp.Succeeded)
	}
	p.session.engine.writes.submit(w)
}

func (p *place) wasTaken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// deleted takes the outcome of a deletion. gone: before the deletion was sent, all attempts to put the key had their
// outcome, and it found the key with the create revision that it compares, so that with its answer the key is gone for good.
// Otherwise the key is looked for: when an attempt is not settled; when etcd refuses the deletion (a permission that is missing for a
// while); and when the deletion found no such key, because somebody else has deleted it, and a late attempt may have put it again,
// with another create revision, since.
//
// A place that the janitor looks for already stays its own: the look that finds nothing frees the slot. Were it freed here, the
// next look would find the key of the slot's next place, held by somebody, and delete that.
func (p *place) deleted(gone bool) {
	if gone && !p.sought.Load() {
		p.freeSlot()
		return
	}
	p.session.engine.janitor.search(p)
}

// deletion compares the create revision, and only that: neither a foreign value nor a stripped lease makes the key less
// ours, and no late attempt can delete a later key (R9).
func (p *place) deletion(created int64) *write {
	return &write{
		line: p.dir, frees: true, size: p.size(),
		cmps:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.key), "=", created)},
		then:   []clientv3.Op{clientv3.OpDelete(p.key)},
		wanted: func() bool { return !p.session.ended() },
	}
}

// settled reports whether no attempt can put the key any more.
func (p *place) settled() bool {
	if p.acquire == nil {
		return true
	}
	settled, _ := p.session.engine.writes.outcome(p.acquire)
	return settled
}

// freeSlot gives the slot back, once.
func (p *place) freeSlot() {
	if !p.freed.Swap(true) {
		p.session.slots.giveBack(p)
	}
}
