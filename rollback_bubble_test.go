// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// Scenario 34: the cluster behind the endpoints is another one, or one that went back in time. All grants are lost with that
// reason, nothing of before is renewed, and no smaller token is handed out until the store has passed the highest seen.
func TestCluster_ReplacedOrRolledBackEndsAllGrants(t *testing.T) {
	for name, change := range map[string]func(r *rig, before int64) error{
		"replaced":    func(r *rig, _ int64) error { r.cluster.Replace(0xbeef); return nil },
		"rolled back": func(r *rig, before int64) error { return r.cluster.RollBackTo(before) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s, idle := r.open(Config{}), r.open(Config{})
				first := r.lock(s, "first")
				time.Sleep(3 * time.Second)
				backup := r.cluster.Revision()
				for range 20 {
					r.must(second(r.cluster.Put("filler", "x", 0)))
				}
				g := r.lock(s, "a")
				time.Sleep(3 * time.Second)
				highest := r.cluster.Revision()
				r.must(change(r, backup))
				changed := time.Now()
				for who, done := range map[string]<-chan struct{}{"first": first.Done(), "a": g.Done(), "session": s.Done()} {
					r.ended(who, done, time.Minute)
					if d := time.Since(changed); d > 2*time.Second {
						r.Errorf("%s: told after %v", who, d)
					}
				}
				for _, err := range []error{g.Err(), s.Err(), context.Cause(g.Context())} {
					if !errors.Is(err, ErrRolledBack) {
						r.Errorf("reason %v, want ErrRolledBack", err)
					}
				}
				r.ended("an idle session", idle.Done(), time.Minute) // a session without grants is not spared
				gone := time.Now()

				if again, err := NewSession(r.within(5*time.Second), r.client, Config{}); !errors.Is(err, ErrRolledBack) {
					if err == nil {
						again.Abandon()
					}
					r.Errorf("a new session meanwhile: %v, want ErrRolledBack", err)
				}
				time.Sleep(30 * time.Second)
				for _, n := range r.cluster.Renewals(0) {
					if n.Arrived.After(gone) {
						r.Errorf("lease %x renewed %v after the change was known", n.Lease, n.Arrived.Sub(gone))
					}
				}

				for r.cluster.Revision() <= highest {
					r.must(second(r.cluster.Put("filler", "x", 0)))
				}
				var later *Session
				for range 3 { // the answer that reveals a replaced cluster is refused itself
					if later, _ = NewSession(r.within(5*time.Second), r.client, Config{}); later != nil {
						break
					}
				}
				if later == nil {
					r.Fatal("no session although the store has passed the mark")
				}
				r.Cleanup(later.Abandon)
				if next := r.lock(later, "a"); int64(next.Token()) <= highest {
					r.Errorf("token %v, but %d was seen before", next.Token(), highest)
				}
			})
		})
	}
}

// R8: a backup can bring a key of ours back that was released long ago, under our own lease, which we have never ceased to renew. Its token is
// an old one and not handed out again, although no answer has shown that the store went back.
func TestCluster_RolledBackUnnoticedHandsOutNoOldToken(t *testing.T) {
	for how, lock := range map[string]func(*Session, context.Context) (*Grant, error){
		"Lock":    func(s *Session, ctx context.Context) (*Grant, error) { return s.Lock(ctx, "a") },
		"TryLock": func(s *Session, ctx context.Context) (*Grant, error) { return s.TryLock(ctx, "a") },
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				first := r.lock(s, "a")
				backup := r.cluster.Revision()
				r.must(first.Release(r.Context()))
				later := r.lock(s, "a")
				highest := later.Token()
				r.must(later.Release(r.Context())) // by the same key
				r.must(r.cluster.RollBackTo(backup))
				for r.cluster.Revision() <= int64(highest) {
					r.must(second(r.cluster.Put("filler", "x", 0)))
				}
				g, err := lock(s, r.within(10*time.Second))
				if err == nil && g.Token() <= highest {
					r.Fatalf("token %v was handed out after %v", g.Token(), highest)
				}
				if err != nil && !errors.Is(err, ErrRolledBack) {
					r.Errorf("%v, want ErrRolledBack", err)
				}
			})
		})
	}
}

// The mark outlives the sessions: nobody holds anything while the cluster is rolled back, and the next session still knows.
func TestCluster_RolledBackWhileNobodyHoldsAnything(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		backup := r.cluster.Revision()
		for range 5 {
			r.must(r.lock(s, "a").Release(r.Context()))
		}
		g := r.lock(s, "a")
		highest := g.Token()
		r.must(g.Release(r.Context()))
		r.must(s.Close(r.Context()))
		r.must(r.cluster.RollBackTo(backup))
		next, err := NewSession(r.Context(), r.client, Config{})
		if err == nil {
			r.Cleanup(next.Abandon)
			if g, err := next.Lock(r.within(10*time.Second), "a"); err == nil && g.Token() <= highest {
				r.Fatalf("token %v was handed out after %v", g.Token(), highest)
			} else if err != nil && !errors.Is(err, ErrRolledBack) {
				r.Errorf("Lock: %v, want ErrRolledBack", err)
			}
		} else if !errors.Is(err, ErrRolledBack) {
			r.Errorf("NewSession: %v, want ErrRolledBack", err)
		}
	})
}

// A cluster that was left may come back, as after a fail-over to another site and home again. That is a change like the first:
// told at once, and then there are sessions again.
func TestCluster_TheFormerOneComesBack(t *testing.T) {
	for name, held := range map[string]bool{"under a grant": true, "under a session without grants": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				open := func() *Session {
					for range 3 { // the answer that reveals a change is refused itself
						if s, err := NewSession(r.within(5*time.Second), r.client, Config{TTL: time.Minute}); err == nil {
							r.Cleanup(s.Abandon)
							return s
						}
					}
					r.Fatal("no session although the store has passed the mark")
					return nil
				}
				replace := func(id uint64) {
					at := r.cluster.Revision()
					r.cluster.Replace(id)
					for r.cluster.Revision() <= at {
						r.must(second(r.cluster.Put("filler", "x", 0)))
					}
				}
				s := open()
				r.must(r.lock(s, "a").Release(r.Context()))
				s.engine.mark.mu.Lock()
				home := s.engine.mark.cluster
				s.engine.mark.mu.Unlock()
				replace(0xbeef)
				r.ended("the session", s.Done(), time.Minute)

				s = open()
				if held {
					r.lock(s, "a")
				}
				time.Sleep(3 * time.Second)
				replace(home)
				within := s.TTL() / 3
				if held {
					within = 2 * time.Second
				}
				r.ended("the session", s.Done(), within)
				if !errors.Is(s.Err(), ErrRolledBack) {
					r.Errorf("reason %v, want ErrRolledBack", s.Err())
				}
				s = open()
				r.must(s.Close(r.Context()))

				replace(0xbeef) // while there is no session
				r.lock(open(), "a")
			})
		})
	}
}

// A holder that learned of its turn by its watch knows how far the store had come. If a backup takes back just the release before
// it, the released key is there again, ahead of whoever comes: a token that is not above what the watch told shows it.
func TestCluster_TakingBackWhatOnlyAWatchToldIsNoticed(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		other := r.another()
		ahead := other.lock(other.open(Config{}), "a")
		s := r.open(Config{})
		got := make(chan error, 1)
		go func() {
			_, err := s.Lock(r.Context(), "a")
			got <- err
		}()
		time.Sleep(3 * time.Second) // its watch is there, and has been read behind
		r.must(ahead.Release(r.Context()))
		r.must(r.result("the waiter", got))
		r.must(r.cluster.RollBackTo(r.cluster.Revision() - 1))
		if g, err := s.Lock(r.within(time.Second), "b"); !errors.Is(err, ErrRolledBack) {
			r.Errorf("a lock after that: %v, %v; want ErrRolledBack", g, err)
		}
	})
}

// A backup that takes back a little is made up for by others soon. The next answer to a renewal tells of an earlier revision before that,
// and is looked into, although a member that lags tells no more.
func TestCluster_TakingBackALittleIsNoticedByTheNextRenewal(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{TTL: 15 * time.Second}) // that holds nothing, so that nothing of it is watched
		r.must(r.lock(s, "b").Release(r.Context()))
		r.must(r.cluster.RollBackTo(r.cluster.Revision() - 1))
		time.Sleep(6 * time.Second) // for a renewal
		r.quiet()
		for range 5 {
			r.must(second(r.another().client.Put(r.Context(), "other", "x")))
		}
		if err := s.Err(); !errors.Is(err, ErrRolledBack) {
			r.Errorf("%v, want ErrRolledBack", err)
		}
	})
}

// A stream that lags, for however long, costs a read now and then and nothing else.
func TestCluster_AStreamThatLagsIsNotTakenForAClusterThatWentBack(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		transactions := r.calls("KV/Txn")
		late := header(0, 0)
		for i := range 600 {
			if i%10 == 0 {
				r.must(r.lock(s, "a").Release(r.Context()))
			}
			late.ClusterId, late.Revision = s.engine.mark.cluster, s.engine.mark.stamp().floor-1
			if err := s.engine.streamed(late); err != nil {
				r.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := transactions(); n < 121 || n > 120+61 {
			r.Errorf("%d transactions, want two for each of 60 locks, and a read a second", n)
		}
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
	})
}
