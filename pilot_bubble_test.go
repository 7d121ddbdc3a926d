// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// since are the members at which the renewals after an instant arrived, and the longest time between two of them.
func (r *rig) since(s *Session, from time.Time) (members map[int]int, longest time.Duration) {
	members = make(map[int]int)
	var last time.Time
	for _, n := range r.renewals(s) {
		if n.Arrived.Before(from) {
			continue
		}
		if !last.IsZero() {
			longest = max(longest, n.Arrived.Sub(last))
		}
		last = n.Arrived
		members[n.Member]++
	}
	return members, longest
}

// wantRenewalsAt looks for two terms at where a session is renewed: at the leader only.
func (r *rig) wantRenewalsAt(s *Session, leader int) {
	r.Helper()
	settled := time.Now()
	time.Sleep(2 * s.TTL())
	if members, _ := r.since(s, settled); len(members) != 1 || members[leader] == 0 {
		r.Errorf("renewals at members %v, want at the leader, %d, only", members, leader)
	}
}

// Renewals cost the leader least, so that is where they go, and they go on without a pause when the leader changes.
func TestPilot_RenewalsFollowTheLeader(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		began := time.Now()
		for i := range 9 {
			leader := i % 3
			r.cluster.SetLeader(leader)
			time.Sleep(2 * s.TTL())
			r.wantRenewalsAt(s, leader)
		}
		if _, longest := r.since(s, began); longest > s.TTL()/3 {
			r.Errorf("%v between two renewals, want at most %v", longest, s.TTL()/3)
		}
	})
}

// The side stream of a renewal in trouble can become the main one, by an answer that tells no new term.
func TestPilot_ASideStreamThatBecomesTheMainOneIsBroughtToTheLeader(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(2 * s.TTL()) // at the leader, 0
		k := s.engine.keeper
		k.mu.Lock()
		now := k.engine.clk.Now()
		k.side = k.openLocked(now, r.cluster.Member(1).Endpoint())
		k.endLocked(k.mains[0])
		s.renewal.suspect, s.renewal.next = true, now
		k.scheduleLocked(s)
		k.mu.Unlock()
		k.kick()
		time.Sleep(2 * s.TTL())
		r.wantRenewalsAt(s, 0)
	})
}

// R12: a leader that takes connections, and answers who it is, but no renewal, costs no turn, and is not tried all the time.
func TestPilot_AScoutThatIsNotAnsweredCostsNothing(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(s.TTL())
		r.quiet()
		all := r.renewals(s)
		now := all[len(all)-1].Member
		next := (now + 1) % 3
		var scouts atomic.Int64
		r.cluster.Hook(silentAt(next, &scouts))
		r.cluster.SetLeader(next)
		began := time.Now()
		time.Sleep(20 * s.TTL())
		members, _ := r.since(s, began)
		if n := scouts.Load(); members[now] < 60 || n < 1 || n > 12 {
			r.Errorf("renewals at members %v, want the turns at %d; %d asked %d, which does not answer, want few", members, now, n, next)
		}
		last := began
		for _, n := range r.renewals(s) {
			if n.Member != now || n.Arrived.Before(began) {
				continue
			}
			if gap := n.Arrived.Sub(last); gap > s.TTL()/3 {
				r.Errorf("%v between two renewals, want at most %v", gap, s.TTL()/3)
			}
			last = n.Arrived
		}
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
	})
}

// An endpoint behind which another member answers than the one that was asked who leads is left alone.
func TestPilot_AnEndpointOfManyMembersIsNotChased(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(s.TTL())
		k := s.engine.keeper
		k.mu.Lock()
		main := k.mains[0]
		k.mu.Unlock()
		other := ""
		for _, endpoint := range r.client.Endpoints() {
			if endpoint != main.link.endpoint {
				other = endpoint
			}
		}
		if k.pilot.send(r.Context(), other, 4711) {
			r.Fatal("a member that was not sought has become the main stream's")
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.mains) != 1 || k.mains[0] != main || k.pilot.scout != nil {
			r.Error("the main stream has changed")
		}
		if left := k.pilot.distrust[other].Sub(s.clk.Now()); left < elsewhere/2 {
			r.Errorf("the endpoint is distrusted for %v, want about %v", left, elsewhere)
		}
	})
}

// One endpoint leaves no choice, and nothing is asked about it.
func TestPilot_AsksNothingWithOneEndpoint(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		asked := r.calls("Maintenance/Status")
		s := r.open(Config{})
		time.Sleep(20 * s.TTL())
		if n := asked(); n > 1 { // once for its version
			r.Errorf("%d questions about the only member", n)
		}
	})
}

// What finds the leader costs a few requests for each change of it, and none in between.
func TestPilot_AsksOnlyWhenTheLeaderChanges(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(4 * s.TTL())
		asked := r.calls("Maintenance/Status")
		time.Sleep(55 * time.Minute)
		if n := asked(); n > 0 {
			r.Errorf("%d questions in most of an hour of peace", n)
		}
	})
}

// silentAt keeps a member from answering renewals, and counts those that it is asked for.
func silentAt(member int, asked *atomic.Int64) etcdfake.Hook {
	return etcdfake.On("Lease/LeaseKeepAlive", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		if call.Member != member {
			return next(ctx)
		}
		asked.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	})
}
