// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// R12: a renewal goes out a third of the term after the last send, less a jitter of a tenth, whatever its answer takes.
func TestStream_RenewsEachThirdOfTheTermAfterTheLastSend(t *testing.T) {
	for _, trip := range []time.Duration{0, 300 * time.Millisecond} {
		t.Run(trip.String(), func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				sent := time.Now()
				s := r.open(Config{})
				time.Sleep(6 * time.Second) // the stream is open
				r.delay(0, trip)
				time.Sleep(time.Hour)
				all := r.renewals(s)
				gaps := make(map[time.Duration]bool)
				for _, n := range all {
					gap := n.Arrived.Sub(sent)
					sent = n.Arrived
					gaps[gap] = true
					if gap > 5*time.Second || gap < 4500*time.Millisecond-together {
						r.Errorf("a renewal %v after the one before, want 4.5s to 5s", gap)
					}
				}
				if len(all) < 720 || len(all) > 802 {
					r.Errorf("%d renewals in an hour", len(all))
				}
				if len(gaps) < len(all)/2 {
					r.Errorf("only %d different intervals: no jitter", len(gaps))
				}
				if !s.Valid() {
					r.Errorf("lost: %v", s.Err())
				}
			})
		})
	}
}

// R12: an unanswered renewal is repeated over other members, several times before the expiry.
func TestStream_RepeatsAnUnansweredRenewalOverOtherMembers(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(6 * time.Second)
		r.quiet()
		r.keepAnswers("Lease/LeaseKeepAlive")
		known := r.expiryOf(s)
		r.ended("the session", s.Done(), time.Minute)
		members, tries := make(map[int]bool), 0
		for _, n := range r.renewals(s) {
			if n.Arrived.Add(term(s)).After(known) {
				members[n.Member] = true
				tries++
			}
		}
		if tries < 3 || tries > 10 || len(members) != 3 {
			r.Errorf("asked %d times, over %d members, between the last answer and the expiry; want several, over 3", tries, len(members))
		}
	})
}

// Scenario 21: the member that carries the stream falls silent, bytes held and nothing reset. The session survives.
func TestStream_SurvivesTheSilenceOfItsMember(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 6 * time.Second, 15 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				r.delay(time.Millisecond, time.Millisecond)
				s := r.open(Config{TTL: ttl})
				g := r.lock(s, "a")
				for range 6 {
					time.Sleep(2 * ttl)
					all := r.renewals(s)
					m := all[len(all)-1].Member
					r.cluster.Member(m).Blackhole()
					least := r.leastRemaining(s, 3*ttl)
					r.cluster.Member(m).Unblackhole()
					if !s.Valid() || !g.Valid() {
						r.Fatalf("member %d silent: lost: %v", m, g.Err())
					}
					if least < ttl/6 {
						r.Errorf("member %d silent: as little as %v was left of %v", m, least, ttl)
					}
				}
			})
		})
	}
}

// leastRemaining looks every 10 ms for a time at what is left of a session.
func (r *rig) leastRemaining(s *Session, d time.Duration) time.Duration {
	least := s.Remaining()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		least = min(least, s.Remaining())
	}
	return least
}

// R1: a path on which every answer takes longer than our patience is not a dead one: its answers count from their sends.
func TestStream_APathSlowerThanItsPatienceStillRenews(t *testing.T) {
	for name, delay := range map[string][2]time.Duration{
		"2.5s each way": {2500 * time.Millisecond, 2500 * time.Millisecond},
		"4s one way":    {0, 4 * time.Second},
		"2s each way":   {2 * time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				time.Sleep(6 * time.Second) // the stream is open
				r.delay(delay[0], delay[1])
				r.leastRemaining(s, 10*time.Minute)
				if !s.Valid() {
					r.Fatalf("lost: %v, with %d renewals", s.Err(), len(r.renewals(s)))
				}
			})
		})
	}
}

// Scenario 22, R12: a lease in trouble at the head of the stream delays no other.
func TestStream_OneStuckLeaseDelaysNoOther(t *testing.T) {
	for stuck, enough := range map[int]time.Duration{1: 1500 * time.Millisecond, 10: 250 * time.Millisecond} {
		t.Run(fmt.Sprint(stuck), func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				bad := make(map[int64]bool)
				var sessions []*Session
				for range stuck {
					s := r.open(Config{TTL: 6 * time.Second})
					bad[int64(s.Lease())] = true
				}
				for range 20 {
					sessions = append(sessions, r.open(Config{TTL: 6 * time.Second}))
				}
				time.Sleep(5 * time.Second)
				// As etcd does for an expired lease whose revocation is under way: the renewal is not answered, and nothing
				// behind it on the stream is looked at.
				r.cluster.Hook(etcdfake.On("Lease/LeaseKeepAlive", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
					if bad[call.Request.(*pb.LeaseKeepAliveRequest).GetID()] {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return next(ctx)
				}))
				least := time.Hour
				for range 3000 {
					time.Sleep(10 * time.Millisecond)
					for _, s := range sessions {
						least = min(least, s.Remaining())
					}
				}
				for _, s := range sessions {
					if !s.Valid() {
						r.Errorf("lost: %v", s.Err())
					}
				}
				if least < enough {
					r.Errorf("as little as %v was left of 6s, want %v", least, enough)
				}
			})
		})
	}
}

// The same with the real thing: the grantor finds leases expired and their revocation is slow to commit, while renewals of
// them are at the head of the stream.
func TestStream_ExpiredLeasesUnderRevocationDelayNoOther(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, CommitLatency: 3 * time.Second}, func(r *rig) {
		var good []*Session
		for i := range 10 {
			good = append(good, r.open(Config{TTL: 30*time.Second + time.Duration(i)*time.Second}))
		}
		var bad []*Session
		for range 50 {
			s, err := NewSession(r.Context(), r.client, Config{TTL: 6 * time.Second})
			r.must(err)
			bad = append(bad, s)
			r.Cleanup(s.Abandon)
		}
		time.Sleep(2500 * time.Millisecond)
		r.quiet()
		// A grantor whose clock leaps by 6.5 s, far beyond every bound, expires the short leases long before their holders
		// believe so.
		r.cluster.Member(0).SetClockRate(6.5e9)
		time.Sleep(time.Nanosecond)
		r.cluster.Member(0).SetClockRate(1)
		least := make([]time.Duration, len(good))
		for i, s := range good {
			least[i] = s.Remaining()
		}
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			for i, s := range good {
				least[i] = min(least[i], s.Remaining())
			}
		}
		for i, s := range good {
			if least[i] < s.TTL()/4 {
				r.Errorf("session %d: %v of %v left at the least, %v", i, least[i], s.TTL(), s.Err())
			}
		}
		waited := time.Duration(0)
		for _, s := range bad {
			for _, n := range r.renewals(s) {
				waited = max(waited, n.Answered.Sub(n.Arrived))
			}
			if s.Valid() {
				r.Error("a session has not noticed that its lease was revoked")
			}
		}
		if waited < time.Second {
			r.Errorf("no renewal of a bad lease waited for its revocation, %v at the most", waited)
		}
	})
}

// All sessions of an etcd client share one stream, whatever their terms.
func TestStream_SessionsOfAClientShareIt(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r, m := r.metered()
		var all []*Session
		for i := range 20 {
			all = append(all, r.open(Config{TTL: time.Duration(5+i) * time.Second}))
		}
		time.Sleep(time.Minute)
		settled := time.Now()
		time.Sleep(2 * time.Minute)
		if n := m.streams.Load(); n > 2 {
			r.Errorf("%d streams were opened, want one and, where that was not the leader's, another", n)
		}
		for _, s := range all {
			if members, _ := r.since(s, settled); len(members) != 1 || members[r.cluster.Leader()] == 0 {
				r.Errorf("renewed over members %v, want the leader, %d", members, r.cluster.Leader())
			}
		}
	})
}

// An hour of a hundred sessions with all kinds of terms: none lost, one stream, renewals as many as there have to be.
func TestStream_AnHourOfAHundredSessions(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.delay(time.Millisecond, time.Millisecond)
		var all []*Session
		want := 0.0
		for i := range 100 {
			ttl := time.Duration(30+i) * time.Second
			all = append(all, r.open(Config{TTL: ttl}))
			want += 3 * float64(time.Hour) / float64(ttl)
		}
		time.Sleep(time.Hour)
		for _, s := range all {
			if !s.Valid() {
				r.Errorf("lost: %v", s.Err())
			}
		}
		if n := len(r.cluster.Renewals(0)); float64(n) < want*0.98 || float64(n) > want*1.12 {
			r.Errorf("%d renewals, want %.0f to a tenth more", n, want)
		}
		k := all[0].engine.keeper
		k.mu.Lock()
		defer k.mu.Unlock()
		if len(k.carriers) != 1 {
			r.Errorf("%d streams for a hundred sessions", len(k.carriers))
		}
	})
}

// A change of leader only lengthens terms; a session does not notice, over whichever member it renews.
func TestStream_SurvivesChangesOfLeader(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, CommitLatency: time.Millisecond, PeerDelay: time.Millisecond}, func(r *rig) {
		r.delay(time.Millisecond, time.Millisecond)
		s := r.open(Config{TTL: 6 * time.Second})
		for i := range 30 {
			r.cluster.SetLeader(i % 3)
			time.Sleep(1700 * time.Millisecond)
		}
		for range 6 { // the leader's process ends and starts again
			lead := r.cluster.Leader()
			if lead < 0 {
				r.Fatal("nobody leads")
			}
			r.cluster.Member(lead).Stop()
			time.Sleep(8 * time.Second)
			if !s.Valid() {
				r.Fatalf("leader %d stopped: lost: %v", lead, s.Err())
			}
			r.cluster.Member(lead).Start()
			time.Sleep(4 * time.Second)
		}
		for range 6 { // the leader is cut off from the others, not from us
			lead := r.cluster.Leader()
			r.cluster.Member(lead).Isolate()
			time.Sleep(8 * time.Second)
			if !s.Valid() {
				r.Fatalf("leader %d isolated: lost: %v", lead, s.Err())
			}
			r.cluster.Member(lead).Rejoin()
			time.Sleep(4 * time.Second)
		}
	})
}

// All connections are reset, again and again: each costs a round trip or two, not the session.
func TestStream_SurvivesResets(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.delay(10*time.Millisecond, 10*time.Millisecond)
		s := r.open(Config{TTL: 3 * time.Second})
		for range 200 {
			time.Sleep(700 * time.Millisecond)
			for i := range 3 {
				r.cluster.Member(i).ResetConnections()
			}
		}
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
	})
}

// R10: an answer that the lease is unknown is believed at once, not at the expiry.
func TestStream_BelievesAtOnceThatALeaseIsGone(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		r.delay(40*time.Millisecond, 60*time.Millisecond)
		s := r.open(Config{})
		time.Sleep(30 * time.Second)
		_, err := r.cluster.Revoke(s.Lease())
		r.must(err)
		sends := len(r.renewals(s))
		r.wait("the next renewal", func() bool { return len(r.renewals(s)) > sends })
		arrived := r.renewals(s)[sends].Arrived
		r.ended("the session", s.Done(), time.Minute)
		if d := time.Since(arrived); d != 60*time.Millisecond {
			r.Errorf("told %v after the answer was sent, want the 60ms of its way", d)
		}
		if !errors.Is(s.Err(), ErrRevoked) {
			r.Errorf("reason %v, want ErrRevoked", s.Err())
		}
	})
}

// Two members of three fall silent for good: whoever was at the head of a stream that stalled finds the third in time, however many
// streams there are to it by then.
func TestStream_ManyStreamsToAMemberThatAnswersDoNotKeepSuspectsFromIt(t *testing.T) {
	for good := range 3 {
		bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
			r.delay(time.Millisecond, time.Millisecond)
			var sessions []*Session
			for range 100 {
				sessions = append(sessions, r.open(Config{TTL: 6 * time.Second}))
			}
			for round := range 10 {
				r.cluster.SetLeader((good + 1 + round%2) % 3)
				time.Sleep(8 * time.Second)
				for i := range 3 {
					if i != good {
						r.cluster.Link(r.client, i).Hold(true, true)
					}
				}
				time.Sleep(10 * time.Second)
				r.release(true, true)
				time.Sleep(20 * time.Second)
			}
			for _, s := range sessions {
				if !s.Valid() {
					r.Errorf("lost: %v", s.Err())
				}
			}
		})
	}
}
