// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// The pilot brings the main keepalive stream to the member that leads the cluster. Any member takes a renewal, but only the leader
// extends leases: the others hand every renewal on to it in a request of its own, which costs the cluster several times as much.
//
// The pilot never has a renewal wait (R12). What it does, and what can happen:
//
//	look     after the first answer of a main stream, when the answers tell a new raft term, and once an hour: ask who leads
//	scout    another member leads: a stream to it is opened beside the main one, and one lease is renewed over it beside its turn
//	promote  the answer has extended that lease, and names the leader: this is the main stream from now on. What was sent over
//	         the one before is answered there, and then it ends
//	give up  no such answer in time: the scout ends, and nothing has changed. The endpoint is distrusted for a while
//
// A main stream at the leader that stalls or ends is replaced like any other, over whichever member answers, and its endpoint is
// distrusted too, so that a path to the leader which is bad in one way or another is not tried all the time.
type pilot struct {
	keeper *keeper
	wake   bell // there may be another leader

	// Guarded by keeper.mu.
	leader   string                   // the endpoint of the leader, as last found; "" before
	scout    *carrier                 // nil: none is out
	distrust map[string]clock.Instant // until when an endpoint is not tried
}

const (
	// scoutWait is how long a scout has, and lookWait the pause after the first look that has found no leader.
	scoutWait, lookWait = 5 * time.Second, time.Second
	// elsewhere is for how long an endpoint is distrusted that leads to different members, as that of a balancer does.
	elsewhere = 10 * time.Minute
)

func newPilot(k *keeper) *pilot {
	return &pilot{keeper: k, wake: newBell(), distrust: make(map[string]clock.Instant)}
}

func (p *pilot) kick() { p.wake.ring() }

func (p *pilot) run() {
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	for failures := 0; ; {
		again.Reset(time.Hour)
		if failures > 0 {
			again.Reset(min(lookWait<<(failures-1), time.Minute))
		}
		select {
		case <-again.C:
		case <-p.wake:
		case <-p.keeper.engine.ctx.Done():
			return
		}
		if p.steer(p.keeper.engine.ctx) {
			failures = 0
		} else {
			failures = min(failures+1, 10)
		}
	}
}

// steer looks for the leader and brings the main stream there. It reports whether there is nothing left to do.
func (p *pilot) steer(ctx context.Context) (done bool) {
	k := p.keeper
	if len(k.engine.client.Endpoints()) < 2 {
		return false // nothing is asked, but the etcd client may be told of more (Sync, SetEndpoints), which nothing tells us
	}
	// Not all clients at once: a leader has just been elected.
	if clock.Wait(ctx, rand.N(min(time.Second, k.shortestTerm()/8))) != nil {
		return true
	}
	member, endpoint := p.where()
	if member == 0 {
		return true // the first answer wakes the pilot
	}
	leader, at := p.find(ctx, endpoint)
	there := leader == member
	if there {
		at = endpoint
	}
	k.mu.Lock()
	p.leader = at
	distrusted := p.distrustsLocked(at, k.engine.clk.Now())
	k.mu.Unlock()
	return there || at != "" && !distrusted && p.send(ctx, at, leader)
}

// where tells which member the main stream is at, and by which endpoint; 0 if it has not answered yet.
func (p *pilot) where() (member uint64, endpoint string) {
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	if len(p.keeper.mains) == 0 {
		return 0, ""
	}
	c := p.keeper.mains[0]
	return c.member, c.link.endpoint
}

// find asks members who leads, that at first before the others, until one says that it does itself, or that the one at first does.
func (p *pilot) find(ctx context.Context, first string) (leader uint64, at string) {
	endpoints := []string{first}
	for _, endpoint := range p.keeper.engine.client.Endpoints() {
		if endpoint != first {
			endpoints = append(endpoints, endpoint)
		}
	}
	for _, endpoint := range endpoints {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		status, err := p.keeper.engine.status(ctx, endpoint)
		cancel()
		if err != nil {
			continue
		}
		if self := status.Header.GetMemberId(); self == status.Leader && status.RaftTerm >= p.keeper.term.Load() {
			return self, endpoint // and not a former one that does not know yet
		}
	}
	return 0, ""
}

// send sends a scout, and reports whether it has become the main stream.
func (p *pilot) send(ctx context.Context, endpoint string, leader uint64) bool {
	k := p.keeper
	k.mu.Lock()
	c := k.openLocked(k.engine.clk.Now(), endpoint)
	c.sought = leader
	c.found = make(chan struct{})
	p.scout = c
	c.link.kick()
	k.mu.Unlock()
	timer := time.NewTimer(scoutWait)
	defer timer.Stop()
	select {
	case <-c.found:
	case <-timer.C:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.inUse(c) && p.scout != c {
		k.engine.journal.info("leasehold: the keepalive stream has moved to the leader", zap.String("endpoint", endpoint))
		return true
	}
	if p.scout == c {
		p.distrustLocked(endpoint, 0)
		k.endLocked(c)
	}
	return false
}

// arrivedLocked takes the first answer over a scout that has extended a lease.
func (p *pilot) arrivedLocked(c *carrier) {
	p.scout = nil
	defer close(c.found)
	k := p.keeper
	switch {
	case c.member != c.sought:
		p.distrustLocked(c.link.endpoint, elsewhere)
	case len(k.mains) > 1: // there is trouble, and what works is needed
		p.distrustLocked(c.link.endpoint, 0)
	default:
		c.answers++
		k.mains = append(k.mains[:0], c)
		return
	}
	k.endLocked(c)
}

// lostLocked notes that a scout has ended.
func (p *pilot) lostLocked(c *carrier) {
	p.scout = nil
	p.distrustLocked(c.link.endpoint, 0)
	close(c.found)
}

// distrustLocked keeps the pilot from an endpoint for at least a while.
func (p *pilot) distrustLocked(endpoint string, atLeast time.Duration) {
	p.distrust[endpoint] = p.keeper.engine.clk.Now().Add(max(atLeast, 2*p.keeper.longest, grudge))
}

func (p *pilot) distrustsLocked(endpoint string, now clock.Instant) bool {
	until, ok := p.distrust[endpoint]
	return ok && now.Before(until)
}

// heardLocked looks at who has answered over a stream.
func (p *pilot) heardLocked(c *carrier, h *pb.ResponseHeader) {
	if c.member == h.GetMemberId() && c.term == h.GetRaftTerm() {
		return
	}
	c.member, c.term = h.GetMemberId(), h.GetRaftTerm()
	if k := p.keeper; len(k.mains) > 0 && k.mains[0] == c {
		p.kick()
	}
}
