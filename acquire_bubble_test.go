// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// txnOnce makes a hook for the first transaction that reaches a member from now on.
func txnOnce(h etcdfake.Hook) etcdfake.Hook {
	return etcdfake.Once(func(c etcdfake.Call) bool { return c.Method == "KV/Txn" }, h)
}

// Acquire and release of a free name take one round trip each.
func TestLock_CostsOneRoundTripAndReleaseToo(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, CommitLatency: 2 * time.Millisecond}, func(r *rig) {
		s := r.open(Config{})
		r.lock(s, "warm") // the connection is there
		r.delay(10*time.Millisecond, 15*time.Millisecond)
		txns := r.calls("KV/Txn")
		for name, lock := range map[string]func() (*Grant, error){
			"Lock":    func() (*Grant, error) { return s.Lock(r.Context(), "a") },
			"TryLock": func() (*Grant, error) { return s.TryLock(r.Context(), "b") },
		} {
			start := time.Now()
			g, err := lock()
			r.must(err)
			if d := time.Since(start); d != 27*time.Millisecond {
				r.Errorf("%s took %v, want one round trip and a commit, 27ms", name, d)
			}
			start = time.Now()
			r.must(g.Release(r.Context()))
			if d := time.Since(start); d != 27*time.Millisecond {
				r.Errorf("Release after %s took %v, want 27ms", name, d)
			}
		}
		if n := txns(); n != 4 {
			r.Errorf("%d transactions, want 4", n)
		}
	})
}

// R8: the token is the create revision of the key, whatever the header of the answer says, though the request was lost,
// answered by nobody or applied twice; and there is one key.
func TestLock_TokenIsTheKeysOwnWhateverHappensToTheRequest(t *testing.T) {
	for name, hook := range map[string]etcdfake.Hook{
		"answer lost":    etcdfake.LoseAnswer(),
		"request lost":   etcdfake.LoseRequest(),
		"answer kept":    etcdfake.KeepAnswer(),
		"applied twice":  etcdfake.Repeat(2),
		"applied thrice": etcdfake.Repeat(3),
		"late":           etcdfake.Delay(3 * time.Second),
		"answered late":  etcdfake.DelayAnswer(3 * time.Second),
	} {
		for how, lock := range map[string]func(*Session, context.Context) (*Grant, error){
			"Lock":    func(s *Session, ctx context.Context) (*Grant, error) { return s.Lock(ctx, "a") },
			"TryLock": func(s *Session, ctx context.Context) (*Grant, error) { return s.TryLock(ctx, "a") },
		} {
			t.Run(how+", "+name, func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3, CommitLatency: time.Millisecond}, func(r *rig) {
					s := r.open(Config{})
					r.cluster.Hook(txnOnce(hook))
					r.cluster.Hook(etcdfake.On("KV/Txn", func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
						resp, err := next(ctx)
						_, _ = r.cluster.Put("noise", "x", 0) // so that the next answer has another revision
						return resp, err
					}))
					start := time.Now()
					g, err := lock(s, r.Context())
					r.must(err)
					if d := time.Since(start); d > 2*time.Second {
						r.Errorf("took %v", d)
					}
					time.Sleep(30 * time.Second)
					keys := r.cluster.Keys(lineDir(defaultPrefix, "a"))
					if len(keys) != 1 || Token(keys[0].CreateRevision) != g.Token() || string(keys[0].Key) != g.Key() {
						r.Fatalf("token %v of %s, keys in etcd %v", g.Token(), g.Key(), keys)
					}
					if !g.Valid() {
						r.Errorf("lost: %v", g.Err())
					}
					r.must(g.Release(r.Context()))
					if keys := r.cluster.Keys(lineDir(defaultPrefix, "a")); len(keys) != 0 {
						r.Errorf("left after the release: %v", keys)
					}
				})
			})
		}
	}
}

// R9, the central hazard: an acquire that was given up while its outcome is unknown, under a session that lives on. Wherever the
// request hangs, its key is gone within about a term of when it appears, and the other grants of the session stay.
func TestLock_AnAbandonedAcquireLeavesNoGhost(t *testing.T) {
	const ttl = 15 * time.Second
	for name, hook := range map[string]etcdfake.Hook{
		"answer lost":              etcdfake.LoseAnswer(),
		"answer kept":              etcdfake.KeepAnswer(),
		"applied twice, no answer": twice(etcdfake.KeepAnswer()),
		"applied after 1s":         etcdfake.Delay(time.Second),
		"applied after 5s":         etcdfake.Delay(5 * time.Second), // after the delete that found nothing
		"applied after 40s":        etcdfake.Delay(40 * time.Second),
		"applied after 10m":        etcdfake.Delay(10 * time.Minute),
		"never applied":            etcdfake.LoseRequest(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{TTL: ttl})
				kept := r.lock(s, "kept")
				dir := lineDir(defaultPrefix, "ghost")
				var appeared, gone time.Time
				r.cluster.OnChange(func(ch etcdfake.Change) {
					switch n := len(ch.Keys(dir)); {
					case n > 0 && appeared.IsZero():
						appeared = ch.At
					case n == 0 && !appeared.IsZero() && gone.IsZero():
						gone = ch.At
					}
				})
				// Every attempt meets the same fate, so that none of them is answered in time.
				abandoned := time.Now().Add(500 * time.Millisecond)
				r.cluster.Hook(etcdfake.On("KV/Txn", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
					if time.Now().Before(abandoned) {
						return hook(ctx, call, next)
					}
					return next(ctx)
				}))
				ctx, cancel := context.WithDeadline(r.Context(), abandoned)
				defer cancel()
				_, err := s.Lock(ctx, "ghost")
				if !errors.Is(err, context.DeadlineExceeded) || !time.Now().Equal(abandoned) {
					r.Fatalf("Lock returned %v at %v after its deadline", err, time.Since(abandoned))
				}
				time.Sleep(20 * time.Minute)
				if keys := r.cluster.Keys(dir); len(keys) != 0 {
					r.Fatalf("the ghost is still there: %v", keys)
				}
				// About a term; for an attempt that comes later than anybody would think, an eighth of how late it is.
				if !appeared.IsZero() && gone.Sub(appeared) > max(ttl, appeared.Sub(abandoned)/8) {
					r.Errorf("the ghost blocked its name for %v", gone.Sub(appeared))
				}
				if !kept.Valid() || !s.Valid() {
					r.Errorf("the other grant: %v", kept.Err())
				}
				if g, err := s.TryLock(r.Context(), "ghost"); err != nil {
					r.Errorf("the name afterwards: %v", err)
				} else {
					r.must(g.Release(r.Context()))
				}
			})
		})
	}
}

// twice applies a request twice and lets h answer.
func twice(h etcdfake.Hook) etcdfake.Hook {
	return func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		_, _ = next(call.Detached(ctx))
		return h(ctx, call, next)
	}
}

// R9 after a success: a late attempt of an acquire that was answered through another flight can put the key again after its
// release.
func TestRelease_OfARepeatedAcquireLeavesNoGhost(t *testing.T) {
	const ttl = 15 * time.Second
	for _, late := range []time.Duration{time.Second, 10 * time.Second, 5 * time.Minute} {
		t.Run(late.String(), func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{TTL: ttl})
				r.cluster.Hook(txnOnce(etcdfake.Delay(late)))
				g := r.lock(s, "a")
				r.must(g.Release(r.Context()))
				if time.Sleep(late + max(ttl, late/8)); len(r.cluster.Keys(lineDir(defaultPrefix, "a"))) != 0 {
					r.Error("the late attempt blocks the name")
				}
				if !s.Valid() {
					r.Errorf("lost: %v", s.Err())
				}
			})
		})
	}
}

// Scenario 14: a release that is held up on the way must not free the grant that comes after it.
func TestRelease_ALateDeleteDoesNotFreeALaterGrant(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		first := r.lock(s, "a")
		r.cluster.Hook(txnOnce(etcdfake.Delay(20 * time.Second)))
		r.must(first.Release(r.Context())) // by another attempt
		second := r.lock(s, "a")
		time.Sleep(time.Minute)
		if !second.Valid() || len(r.cluster.Keys("")) != 1 {
			r.Errorf("the later grant: %v", second.Err())
		}
		if second.Token() <= first.Token() {
			r.Errorf("tokens %v, then %v", first.Token(), second.Token())
		}
	})
}

// R7: whoever comes first after his session has ended has not won. Quorum is lost for longer than the term; the new leader has
// armed all leases again, so that the keys are all there.
func TestLock_FailsWhenTheSessionEndsWhileItWaits(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		holder := r.lock(r.open(Config{TTL: time.Minute}), "a")
		other := r.another()
		s := other.open(Config{TTL: 6 * time.Second})
		got := make(chan error, 1)
		go func() {
			_, err := s.Lock(r.Context(), "a")
			got <- err
		}()
		time.Sleep(20 * time.Second)
		r.quiet()
		r.cluster.Member(1).Stop()
		r.cluster.Member(2).Stop()
		time.Sleep(2 * time.Second) // a leader without a quorum steps down after an election timeout
		r.quiet()
		expiry := r.expiryOf(s)
		err := r.result("the waiter", got)
		if !errors.Is(err, ErrExpired) || !time.Now().Equal(expiry) {
			r.Errorf("Lock returned %v, %v after the expiry; want ErrExpired at it", err, time.Since(expiry))
		}
		r.cluster.Member(1).Start()
		r.cluster.Member(2).Start()
		time.Sleep(10 * time.Second)
		if !holder.Valid() {
			r.Fatalf("the holder: %v", holder.Err())
		}
		if keys := r.cluster.Keys(""); len(keys) != 1 || string(keys[0].Key) != holder.Key() {
			r.Errorf("keys left: %v, want the holder's", keys)
		}
	})
}

// R7: the answer says that the name is ours, and no timer has fired, but the machine slept while it was on its way.
func TestLock_DoesNotSucceedAfterTheExpiry(t *testing.T) {
	for how, lock := range map[string]func(*Session, context.Context) (*Grant, error){
		"Lock":    func(s *Session, ctx context.Context) (*Grant, error) { return s.Lock(ctx, "a") },
		"TryLock": func(s *Session, ctx context.Context) (*Grant, error) { return s.TryLock(ctx, "a") },
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				r.cluster.Hook(txnOnce(func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
					resp, err := next(ctx)
					s.clk.Suspend(15 * time.Second)
					return resp, err
				}))
				if g, err := lock(s, r.Context()); g != nil || !errors.Is(err, ErrExpired) {
					r.Errorf("returned %v, %v; want ErrExpired", g, err)
				}
				time.Sleep(time.Second)
				if keys := r.cluster.Keys(""); len(keys) != 0 {
					r.Errorf("keys left: %v", keys)
				}
			})
		})
	}
}
