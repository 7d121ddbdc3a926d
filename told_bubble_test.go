// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/leasehold/internal/etcdfake"
)

// What an operator can do to a grant.
var takings = map[string]func(r *rig, g *Grant) error{
	"key deleted": func(r *rig, g *Grant) error { return second(r.cluster.Delete(g.Key())) },
	"key overwritten": func(r *rig, g *Grant) error {
		return second(r.cluster.Put(g.Key(), "mine now", g.Session().Lease()))
	},
	"lease stripped": func(r *rig, g *Grant) error {
		return second(r.cluster.Put(g.Key(), g.Session().cfg.Holder, 0))
	},
	"lease revoked": func(r *rig, g *Grant) error { return second(r.cluster.Revoke(g.Session().Lease())) },
	"deleted and made again": func(r *rig, g *Grant) error {
		if _, err := r.cluster.Delete(g.Key()); err != nil {
			return err
		}
		return second(r.cluster.Put(g.Key(), g.Session().cfg.Holder, g.Session().Lease()))
	},
}

// R10: the holder of a grant older than a second is told within a round trip, with the reason.
func TestGrant_OlderThanASecondIsToldOfItsLossWithinARoundTrip(t *testing.T) {
	for name, take := range takings {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				r.delay(20*time.Millisecond, 30*time.Millisecond)
				s := r.open(Config{})
				g, other := r.lock(s, "a"), r.lock(s, "b")
				time.Sleep(1500 * time.Millisecond)
				r.quiet()
				start := time.Now()
				r.must(take(r, g))
				r.ended("the grant", g.Done(), time.Minute)
				if d := time.Since(start); d != 30*time.Millisecond {
					r.Errorf("told after %v, want the 30ms of the way", d)
				}
				if g.Valid() || !errors.Is(g.Err(), ErrRevoked) || !errors.Is(context.Cause(g.Context()), ErrRevoked) {
					r.Errorf("valid %v, err %v, cause %v; want ErrRevoked", g.Valid(), g.Err(), context.Cause(g.Context()))
				}
				if alone := name != "lease revoked"; alone != other.Valid() && alone {
					r.Errorf("the other grant: %v", other.Err())
				}
				if err := g.Release(r.Context()); !errors.Is(err, ErrRevoked) {
					r.Errorf("Release: %v, want the reason", err)
				}
				time.Sleep(time.Second)
				if keys := r.cluster.Keys(lineDir(defaultPrefix, "a")); len(keys) != 0 && name != "deleted and made again" {
					r.Errorf("keys left: %v", keys) // a key with a create revision that is not ours is not ours
				}
			})
		})
	}
}

// R10: a grant younger than a second has no watch. It is told within two seconds all the same.
func TestGrant_YoungerThanASecondIsToldOfItsLossWithinTwo(t *testing.T) {
	for name, take := range takings {
		for _, age := range []time.Duration{0, 500 * time.Millisecond, 990 * time.Millisecond, 1030 * time.Millisecond} {
			t.Run(name+" at "+age.String(), func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
					r.delay(20*time.Millisecond, 30*time.Millisecond)
					g := r.lock(r.open(Config{}), "a")
					time.Sleep(age)
					start := time.Now()
					r.must(take(r, g))
					r.ended("the grant", g.Done(), time.Minute)
					if d := time.Since(start); d > 2*time.Second {
						r.Errorf("told after %v, want 2s at most", d)
					}
					if !errors.Is(g.Err(), ErrRevoked) {
						r.Errorf("reason %v, want ErrRevoked", g.Err())
					}
				})
			})
		}
	}
}

// R10 costs short critical sections nothing: no watch is opened for a grant that is released within a second.
func TestGrant_ShortCriticalSectionsPayForNoWatch(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		watches, txns := r.calls("Watch/Watch"), r.calls("KV/Txn")
		for range 50 {
			g := r.lock(s, "a")
			time.Sleep(900 * time.Millisecond)
			r.must(g.Release(r.Context()))
		}
		time.Sleep(5 * time.Second)
		if w, x := watches(), txns(); w != 0 || x != 100 {
			r.Errorf("%d watch messages and %d transactions for 50 short grants, want 0 and 100", w, x)
		}
	})
}

// R10 when the watch is broken as the key goes: what happened meanwhile is read, over another member.
func TestGrant_IsToldOfWhatHappenedWhileItsWatchWasBroken(t *testing.T) {
	for name, interrupt := range map[string]func(r *rig, undo bool){
		"all members silent": func(r *rig, undo bool) {
			if undo {
				r.release(true, true)
			} else {
				r.hold(true, true)
			}
		},
		"reset": func(r *rig, undo bool) {
			for i := range 3 {
				if undo {
					r.cluster.Link(r.client, i).Accept()
				} else {
					r.cluster.Link(r.client, i).Refuse()
				}
			}
		},
	} {
		for outage := 10 * time.Second; outage < time.Minute; outage += 7 * time.Second {
			t.Run(fmt.Sprintf("%s for %v", name, outage), func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
					g := r.lock(r.open(Config{TTL: 2 * time.Minute}), "a")
					time.Sleep(5 * time.Second)
					r.quiet()
					interrupt(r, false)
					time.Sleep(100 * time.Millisecond)
					r.must(second(r.cluster.Delete(g.Key())))
					r.must(r.cluster.Compact(r.cluster.Revision()))
					time.Sleep(outage)
					interrupt(r, true)
					if d := r.ended("the grant", g.Done(), time.Minute); d > 2*time.Second {
						r.Errorf("told %v after the way was free", d)
					}
					if !errors.Is(g.Err(), ErrRevoked) {
						r.Errorf("reason %v", g.Err())
					}
				})
			})
		}
	}
}

// R10: the member with the watch goes silent; the key is deleted; the grant is told long before its lease could run out.
func TestGrant_IsToldAlthoughTheMemberWithItsWatchIsSilent(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		time.Sleep(5 * time.Second)
		r.quiet()
		w := s.engine.watcher
		w.mu.Lock()
		endpoint := w.stream.link.endpoint
		w.mu.Unlock()
		for i, e := range r.cluster.Endpoints() {
			if e == endpoint {
				r.cluster.Member(i).Blackhole()
			}
		}
		r.must(second(r.cluster.Delete(g.Key())))
		start := time.Now()
		r.ended("the grant", g.Done(), time.Minute)
		if d := time.Since(start); d > s.TTL()/2 {
			r.Errorf("told after %v", d)
		}
		if !errors.Is(g.Err(), ErrRevoked) {
			r.Errorf("reason %v", g.Err())
		}
	})
}

// R3: whose session ends while it waits is told at once, with the reason.
func TestLock_AWaiterEndsAtOnceWithItsSession(t *testing.T) {
	for name, tc := range map[string]struct {
		end    func(r *rig, s *Session)
		reason error
	}{
		"closed":    {func(r *rig, s *Session) { r.must(s.Close(r.Context())) }, ErrClosed},
		"abandoned": {func(_ *rig, s *Session) { s.Abandon() }, ErrClosed},
		"asleep":    {func(_ *rig, s *Session) { s.clk.Suspend(time.Hour); s.Valid() }, ErrExpired},
	} {
		for _, ahead := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d ahead", name, ahead), func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
					for range ahead {
						other := r.another()
						go func() { _, _ = other.open(Config{TTL: time.Minute}).Lock(r.Context(), "a") }()
						time.Sleep(100 * time.Millisecond)
					}
					s := r.open(Config{TTL: time.Minute})
					got := make(chan error, 1)
					go func() { got <- second(s.Lock(r.Context(), "a")) }()
					time.Sleep(3 * time.Second)
					start := time.Now()
					tc.end(r, s)
					if err := r.result("the waiter", got); !errors.Is(err, tc.reason) {
						r.Errorf("Lock: %v, want %v", err, tc.reason)
					}
					if d := time.Since(start); d != 0 {
						r.Errorf("told after %v", d)
					}
				})
			})
		}
	}
}

// R10, for waiters: whose key goes is told at once, not when the one ahead leaves.
func TestLock_AWaiterIsToldAtOnceThatItsOwnKeyOrLeaseHasGone(t *testing.T) {
	for name, take := range map[string]func(r *rig, s *Session, key string) error{
		"key":         func(r *rig, _ *Session, key string) error { return second(r.cluster.Delete(key)) },
		"overwritten": func(r *rig, s *Session, key string) error { return second(r.cluster.Put(key, "mine now", s.Lease())) },
		"lease":       func(r *rig, s *Session, _ string) error { return second(r.cluster.Revoke(s.Lease())) },
	} {
		for _, ahead := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
					r.delay(20*time.Millisecond, 30*time.Millisecond)
					others := r.open(Config{})
					r.lock(others, "a")
					for range ahead - 1 {
						go func() { _, _ = others.Lock(r.Context(), "a") }()
					}
					time.Sleep(time.Second)
					s := r.open(Config{})
					got := make(chan error, 1)
					go func() { got <- second(s.Lock(r.Context(), "a")) }()
					time.Sleep(time.Second)
					keys := r.cluster.Keys(lineDir(defaultPrefix, "a"))
					if len(keys) != ahead+1 {
						r.Fatalf("%d in line, want %d", len(keys), ahead+1)
					}
					start := time.Now()
					r.must(take(r, s, string(keys[ahead].Key)))
					err := r.result("the waiter", got)
					if d := time.Since(start); d != 30*time.Millisecond {
						r.Errorf("told after %v, want the 30ms of the way", d)
					}
					if !errors.Is(err, ErrRevoked) {
						r.Errorf("Lock: %v, want ErrRevoked", err)
					}
					time.Sleep(time.Second)
					if left := r.cluster.Keys(lineDir(defaultPrefix, "a")); len(left) != ahead {
						r.Errorf("%d in line afterwards, want %d", len(left), ahead)
					}
				})
			})
		}
	}
}

// strip takes the lease from the key of a grant while etcd answers no transactions, until it is repaired.
func (r *rig) strip(g *Grant) (repair func()) {
	time.Sleep(1500 * time.Millisecond) // old enough to be watched
	repair = r.cluster.Hook(etcdfake.On("KV/Txn", etcdfake.Fail(status.Error(codes.Unavailable, "etcdserver: no leader"))))
	r.must(second(r.cluster.Put(g.Key(), g.Session().cfg.Holder, 0)))
	r.ended("the grant", g.Done(), time.Second)
	return repair
}

// A key without a lease stays until somebody deletes it, so its holder, who has been told, does: when etcd takes no deletions for
// longer than a term, after that. The session lives on, and a name that it blocks is blocked for everybody.
func TestGrant_AKeyWithoutItsLeaseIsDeletedHoweverLongThatTakes(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{TTL: 5 * time.Second})
		g := r.lock(s, "a")
		repair := r.strip(g)
		time.Sleep(3 * s.TTL())
		repair()
		time.Sleep(3 * time.Second)
		if keys := r.cluster.Keys(""); len(keys) != 0 || !s.Valid() {
			r.Errorf("keys %v, session valid %v: want none, by the session that lives on", keys, s.Valid())
		}
	})
}

// The same when the session ends meanwhile: Close waits for the deletion, and for a term at most.
func TestClose_WaitsForTheDeletionOfAKeyWithoutItsLease(t *testing.T) {
	for name, broken := range map[string]time.Duration{"that comes": 2 * time.Second, "that does not come": time.Hour} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{TTL: 5 * time.Second})
				g := r.lock(s, "a")
				repair := r.strip(g)
				time.Sleep(2 * s.TTL())
				time.AfterFunc(broken, repair)
				start := time.Now()
				r.must(s.Close(r.Context()))
				took := time.Since(start)
				switch keys := r.cluster.Keys(""); {
				case broken < s.TTL() && (took < broken || took >= s.TTL() || len(keys) != 0):
					r.Errorf("Close took %v and left %v", took, keys)
				case broken > s.TTL() && took != s.TTL():
					r.Errorf("Close took %v, want the %v of a term", took, s.TTL())
				}
			})
		})
	}
}
