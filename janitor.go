// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

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
// Leases. The lease of a lost session is revoked if that can be done before it runs out.
type janitor struct {
	engine *engine
	wake   chan struct{} // holds one

	mu      sync.Mutex
	missing []*search
	// orders are leases to be revoked; revokers is how many goroutines work on them.
	orders   []order
	revokers int
}

const revokers = 8

// A search looks for a key that should not exist.
type search struct {
	place   *place
	next    clock.Instant
	pause   time.Duration
	settled bool // the last look began after all attempts had their outcome
}

type order struct {
	lease clientv3.LeaseID
	until clock.Instant
}

func newJanitor(e *engine) *janitor {
	return &janitor{engine: e, wake: make(chan struct{}, 1)}
}

// search begins to look for the key of a place that has been left while attempts to take it were not settled.
func (j *janitor) search(p *place) {
	j.mu.Lock()
	j.missing = append(j.missing, &search{place: p, next: j.engine.clk.Now()})
	j.mu.Unlock()
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *janitor) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, wait := j.due()
		if len(due) > 0 {
			j.look(due)
			continue
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

// due returns the searches whose time has come, at most as many as one read takes, and otherwise how long none is due.
func (j *janitor) due() (due []*search, wait time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.engine.clk.Now()
	wait = time.Hour
	kept := j.missing[:0]
	for _, m := range j.missing {
		if m.place.session.ended() {
			continue
		}
		kept = append(kept, m)
		if m.next <= now && len(due) < shareLimit {
			due = append(due, m)
		}
		wait = min(wait, max(0, m.next.Sub(now)))
	}
	clear(j.missing[len(kept):])
	j.missing = kept
	return due, wait
}

// look reads the keys and deletes those that exist. Between looks it waits longer and longer, up to a term: a name
// is blocked by a late attempt for about that long at most.
func (j *janitor) look(due []*search) {
	ops := make([]clientv3.Op, len(due))
	for i, m := range due {
		m.settled = m.place.settled()
		ops[i] = clientv3.OpGet(m.place.key, clientv3.WithKeysOnly())
	}
	ctx, cancel := context.WithTimeout(j.engine.ctx, 2*time.Second)
	defer cancel()
	resp, err := j.engine.read(ctx, nil, ops...)
	now := j.engine.clk.Now()
	finished := make(map[*search]bool)
	for i, m := range due {
		m.pause = min(max(2*m.pause, 100*time.Millisecond), m.place.session.granted/2)
		m.next = now.Add(m.pause/2 + rand.N(m.pause/2+1))
		if err != nil {
			continue
		}
		if kvs := resp.Responses[i].GetResponseRange().GetKvs(); len(kvs) > 0 {
			j.engine.log.Info("leasehold: deleting a key that a late attempt left", zap.String("key", m.place.key))
			m.place.delete(kvs[0].GetCreateRevision(), nil)
		} else if m.settled {
			finished[m] = true
		}
	}
	for m := range finished {
		if m.place.token != 0 { // else a delete that compares nothing was sent, and could be applied to the slot's next key
			m.place.freeSlot()
		}
	}
	if len(finished) == 0 {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	kept := j.missing[:0]
	for _, m := range j.missing {
		if !finished[m] {
			kept = append(kept, m)
		}
	}
	clear(j.missing[len(kept):])
	j.missing = kept
}

// revokeSoon revokes a lease in the background, for at most the time within which it would run out by itself.
func (e *engine) revokeSoon(lease clientv3.LeaseID, within time.Duration) {
	e.enter()
	j := e.janitor
	j.mu.Lock()
	defer j.mu.Unlock()
	if e.ctx.Err() != nil {
		defer e.leave()
		return
	}
	j.orders = append(j.orders, order{lease, e.clk.Now().Add(within)})
	if j.revokers < revokers {
		j.revokers++
		e.wg.Go(j.revoke)
	}
}

// revoke works on orders until there are none.
func (j *janitor) revoke() {
	for {
		j.mu.Lock()
		if len(j.orders) == 0 {
			j.revokers--
			j.mu.Unlock()
			return
		}
		o := j.orders[0]
		j.orders = j.orders[1:]
		j.mu.Unlock()
		if left := o.until.Sub(j.engine.clk.Now()); left > 0 {
			_ = j.engine.revoke(j.engine.ctx, o.lease, left) // it runs out by itself
		}
		j.engine.leave()
	}
}

// revoke revokes a lease, trying for at most within. A lease that is gone is no error.
func (e *engine) revoke(ctx context.Context, lease clientv3.LeaseID, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, min(500*time.Millisecond<<min(try, 3), 4*time.Second))
		_, err := clientv3.RetryLeaseClient(e.client).LeaseRevoke(attempt, &pb.LeaseRevokeRequest{ID: int64(lease)})
		err = clientv3.ContextError(attempt, err)
		cancel()
		switch {
		case err == nil, errors.Is(err, rpctypes.ErrLeaseNotFound):
			return nil
		case judge(err) == outcomeRefused:
			return err
		}
		if pause(ctx, min(20*time.Millisecond<<min(try, 6), time.Second)) != nil {
			return err
		}
		e.client.ActiveConnection().ResetConnectBackoff()
	}
}
