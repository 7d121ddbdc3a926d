// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/leasehold/internal/clock"
)

// The janitor cleans up what callers no longer wait for.
//
// Keys. An acquire that was given up, or whose grant was released, can have attempts without an answer. Any of them may be
// applied long after the key was deleted, and then the key blocks its name for as long as the session is renewed: nobody
// claims it and nobody waits for it to go (R9). A delete that found nothing settles nothing. So the key is looked
// for again and again until all attempts have a definite outcome and one look after that found nothing, or the
// session has ended, whose lease takes all its keys along: an attempt applied after that is refused for want of its
// lease.
//
// Leases. The lease of a lost session is revoked if that can be done, but not before it would run out by itself: the margin
// between the holder's expiry and the grantor's belongs to those who are still stopping.
type janitor struct {
	engine *engine
	wake   bell

	mu      sync.Mutex
	missing []*search
	// orders are leases to be revoked; revokers is how many goroutines work on them. Those that wait for an order to fall due
	// look again when they are told that the orders have changed.
	orders   []order
	revokers int
	changed  bell
}

const revokers = 8

// A search looks for a key that should not exist; its fields are guarded by janitor.mu.
type search struct {
	place   *place
	since   clock.Instant
	next    clock.Instant
	pause   time.Duration
	looking bool
}

type order struct {
	lease clientv3.LeaseID
	from  clock.Instant
	until clock.Instant
}

func newJanitor(e *engine) *janitor {
	return &janitor{engine: e, wake: newBell(), changed: newBell()}
}

// search begins to look for the key of a place that has been left.
func (j *janitor) search(p *place) {
	if p.sought.Swap(true) || p.session.ended() {
		return
	}
	now := j.engine.clk.Now()
	j.mu.Lock()
	j.missing = append(j.missing, &search{place: p, since: now, next: now})
	j.mu.Unlock()
	j.kick()
}

func (j *janitor) kick() { j.wake.ring() }

func (j *janitor) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, wait := j.due()
		for _, m := range due {
			j.look(m)
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-j.wake:
		case <-j.engine.ctx.Done():
			return
		}
	}
}

// due returns the searches whose time has come, and how long no other will be. Searches of sessions that have ended fall
// out. From look to look it waits longer, up to half a term or an eighth of the search's age: a late attempt blocks its
// name for about a term, one that is later than anybody would think for a fraction of how late it is.
func (j *janitor) due() (due []*search, wait time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.engine.clk.Now()
	wait = time.Hour
	j.missing = slices.DeleteFunc(j.missing, func(m *search) bool { return m.place.session.ended() })
	for _, m := range j.missing {
		if m.looking {
			continue // its answer wakes the janitor
		}
		if m.next <= now {
			m.looking = true
			m.pause = min(max(2*m.pause, 100*time.Millisecond), max(m.place.session.granted/2, now.Sub(m.since)/8))
			m.next = now.Add(m.pause/2 + rand.N(m.pause/2+1))
			due = append(due, m)
			continue
		}
		wait = min(wait, max(0, m.next.Sub(now)))
	}
	return due, wait
}

// look reads the key, in one read with others, and deletes it if it exists.
func (j *janitor) look(m *search) {
	p := m.place
	settled := p.settled() // before the read: what is put later is found by a later look
	j.engine.reads.submit(&write{
		then:   []clientv3.Op{clientv3.OpGet(p.key, clientv3.WithKeysOnly())},
		wanted: func() bool { return !p.session.ended() },
		done: func(resp *clientv3.TxnResponse, err error) {
			var found int64
			if err == nil {
				for _, kv := range resp.Responses[0].GetResponseRange().GetKvs() {
					found = kv.GetCreateRevision()
				}
			}
			finished := err == nil && settled && found == 0
			j.mu.Lock()
			m.looking = false
			if finished {
				j.missing = slices.DeleteFunc(j.missing, func(o *search) bool { return o == m })
			}
			j.mu.Unlock()
			j.kick()
			switch {
			case found != 0:
				j.engine.journal.info("leasehold: deleting a key that a late attempt left", zap.String("key", p.key))
				p.delete(found, nil)
			case finished:
				p.freeSlot()
			}
		},
	})
}

// revokeSoon revokes a lease in the background after a while, trying for at most within.
func (e *engine) revokeSoon(lease clientv3.LeaseID, after, within time.Duration) {
	e.enter()
	j := e.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.revokers < revokers {
		if !e.start(j.revoke) {
			e.leave()
			return
		}
		j.revokers++
	}
	from := e.clk.Now().Add(after)
	j.orders = append(j.orders, order{lease, from, from.Add(within)})
	j.ordersChanged()
}

func (j *janitor) ordersChanged() { j.changed.ring() }

// revoke works on orders until there are none.
func (j *janitor) revoke() {
	e := j.engine
	for {
		o, early, ok := j.order()
		if !ok {
			return
		}
		if early > 0 {
			timer := time.NewTimer(early)
			select {
			case <-timer.C:
			case <-j.changed: // perhaps one that is due
			case <-e.ctx.Done():
			}
			timer.Stop()
			continue
		}
		if left := o.until.Sub(e.clk.Now()); left > 0 {
			_ = e.revoke(e.ctx, o.lease, left) // it runs out by itself
		}
		e.leave()
	}
}

// order takes the order that has been due for longest, or tells how early it is for the first. Not ok: there is none, and the
// caller is a revoker no more.
func (j *janitor) order() (o order, early time.Duration, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.orders) == 0 {
		j.revokers--
		return order{}, 0, false
	}
	first := 0
	for i, o := range j.orders {
		if o.from < j.orders[first].from {
			first = i
		}
	}
	o = j.orders[first]
	if early := o.from.Sub(j.engine.clk.Now()); early > 0 && j.engine.ctx.Err() == nil {
		return o, early, true
	}
	j.orders = slices.Delete(j.orders, first, first+1)
	if len(j.orders) > 0 {
		j.ordersChanged() // another one waits for the next
	}
	return o, 0, true
}

// revoke revokes a lease, trying for at most within. A lease that is gone is no error.
func (e *engine) revoke(ctx context.Context, lease clientv3.LeaseID, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for try := 0; ; try++ {
		err := errUnreachable // etcd's client would log each try
		if !unreachable(e.client) {
			err = e.revokeOnce(ctx, lease, min(500*time.Millisecond<<min(try, 3), 4*time.Second))
		}
		switch {
		case err == nil, errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil
		case judge(err) == outcomeRefused:
			return err
		}
		if pause(ctx, min(20*time.Millisecond<<min(try, 6), time.Second)) != nil {
			return err
		}
		if e.hasten(); try > 0 && errors.Is(err, context.DeadlineExceeded) {
			e.hastenSilent()
		}
	}
}

var errUnreachable = status.Error(codes.Unavailable, "leasehold: none of the etcd client's endpoints can be reached")

func (e *engine) revokeOnce(ctx context.Context, lease clientv3.LeaseID, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	_, err := pb.NewLeaseClient(e.client.ActiveConnection()).LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(lease)})
	return clientv3.ContextError(ctx, err)
}
