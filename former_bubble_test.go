// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"example.com/leasehold/internal/etcdfake"
)

// A leader that was cut off from the others renews leases for up to an election timeout after they have elected another. If the new
// one has renewed a lease meanwhile, it counts from there, whatever the former one promises later.

func answerInTerm(s *Session, ttl int64, term uint64) *pb.LeaseKeepAliveResponse {
	a := answerOf(s, ttl)
	a.Header.RaftTerm = term
	return a
}

// R2: an answer of an earlier raft term than one before extends nothing and ends nothing, whichever lease that one was for.
func TestCarrier_AnAnswerOfAnEarlierRaftTermCountsForNothing(t *testing.T) {
	onCarrier(t, 2, func(t *testing.T, c *carrier, all []*Session) {
		a, b := all[0], all[1]
		time.Sleep(time.Second)
		c.ask(a)
		c.received(nil, answerInTerm(a, 15, 5))
		wantA, wantB := a.expiresAt(), b.expiresAt()
		for _, ttl := range []int64{15, 0} {
			time.Sleep(time.Second)
			c.ask(a, b)
			c.received(nil, answerInTerm(a, ttl, 4))
			c.received(nil, answerInTerm(b, ttl, 4))
			if a.expiresAt() != wantA || b.expiresAt() != wantB || !a.Valid() || !b.Valid() {
				t.Errorf("an answer of %d s moved the expiries by %v and %v; valid: %v, %v", ttl, a.expiresAt().Sub(wantA), b.expiresAt().Sub(wantB), a.Valid(), b.Valid())
			}
			if !a.renewal.asked || !b.renewal.asked {
				t.Error("it counts as answered")
			}
		}
		time.Sleep(time.Second)
		c.ask(a, b)
		c.received(nil, answerInTerm(a, 15, 5))
		c.received(nil, answerInTerm(b, 15, 6))
		if a.expiresAt() <= wantA || b.expiresAt() <= wantB {
			t.Error("answers of the same and of a later term extend nothing")
		}
	})
}

// The answer to a transaction tells of a later leader as well. And a cluster that is another one counts its terms anew.
func TestCarrier_TransactionsTellTheRaftTermToo(t *testing.T) {
	onCarrier(t, 1, func(t *testing.T, c *carrier, all []*Session) {
		s, e := all[0], all[0].engine
		h := header(clusterA, 1)
		h.RaftTerm = 7
		if err := e.linearizable(h, e.mark.stamp()); err != nil {
			t.Fatal(err)
		}
		before := s.expiresAt()
		time.Sleep(time.Second)
		c.ask(s)
		c.received(nil, answerInTerm(s, 15, 6))
		if s.expiresAt() != before {
			t.Error("an answer of term 6 counts after one of term 7")
		}
		e.rolledBack()
		if got := e.keeper.term.Load(); got != 0 {
			t.Errorf("term %d is still known of a cluster that has gone", got)
		}
	})
}

// A former leader says of itself that it leads. What has been heard of a later term tells otherwise.
func TestPilot_AFormerLeaderIsNotFollowed(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, ElectionTimeout: 5 * time.Second}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(s.TTL())
		r.cluster.Member(0).Isolate()
		r.cluster.SetLeader(1)
		k := s.engine.keeper
		k.mu.Lock()
		k.endLocked(k.mains[0]) // as if the stream to the former leader had ended
		k.mains = append(k.mains, k.openLocked(k.engine.clk.Now(), r.cluster.Member(2).Endpoint()))
		s.renewal.next = k.engine.clk.Now()
		k.scheduleLocked(s)
		k.mu.Unlock()
		k.kick()
		began := time.Now()
		time.Sleep(4 * time.Second) // the former leader does not know yet
		r.quiet()
		status, err := r.client.Status(r.Context(), r.cluster.Member(0).Endpoint())
		r.must(err)
		if status.Leader != status.Header.GetMemberId() {
			r.Fatal("the former leader has noticed before anything was shown")
		}
		time.Sleep(s.TTL())
		later := false
		for _, n := range r.renewals(s) {
			if n.Arrived.Before(began) {
				continue
			}
			later = later || n.Member != 0
			if later && n.Member == 0 {
				r.Errorf("a renewal at the former leader %v after another leads", n.Arrived.Sub(began))
			}
		}
		if !later || !s.Valid() {
			r.Errorf("renewed by the others: %v; valid: %v", later, s.Valid())
		}
	})
}
