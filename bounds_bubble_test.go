// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// R11: every blocking call returns when its context ends, with its error, when all members are silent.
func TestBlockingCalls_EndWithTheirContextWhenEverybodyIsSilent(t *testing.T) {
	// Each prepares on a healthy cluster and returns the call.
	for name, prepare := range map[string]func(r *rig) func(ctx context.Context) error{
		"NewSession": func(r *rig) func(context.Context) error {
			return func(ctx context.Context) error { return second(NewSession(ctx, r.client, Config{})) }
		},
		"Session.Lock": func(r *rig) func(context.Context) error {
			s := r.open(Config{TTL: time.Minute})
			return func(ctx context.Context) error { return second(s.Lock(ctx, "a")) }
		},
		"Session.Lock, in line": func(r *rig) func(context.Context) error {
			s := r.open(Config{TTL: time.Minute})
			other := r.another()
			other.lock(other.open(Config{TTL: time.Minute}), "a")
			return func(ctx context.Context) error {
				return r.silentIn(time.Second, func() error { return second(s.Lock(ctx, "a")) })
			}
		},
		"Session.Lock, behind a neighbour": func(r *rig) func(context.Context) error {
			s := r.open(Config{TTL: time.Minute})
			r.lock(s, "a")
			return func(ctx context.Context) error {
				return r.silentIn(time.Second, func() error { return second(s.Lock(ctx, "a")) })
			}
		},
		"Session.TryLock": func(r *rig) func(context.Context) error {
			s := r.open(Config{TTL: time.Minute})
			return func(ctx context.Context) error { return second(s.TryLock(ctx, "a")) }
		},
		"Session.Do": func(r *rig) func(context.Context) error {
			s := r.open(Config{TTL: time.Minute})
			return func(ctx context.Context) error {
				return s.Do(ctx, "a", func(context.Context, *Grant) error { return nil })
			}
		},
		"Session.Close": func(r *rig) func(context.Context) error {
			return r.open(Config{TTL: time.Minute}).Close
		},
		"Grant.Release": func(r *rig) func(context.Context) error {
			return r.lock(r.open(Config{TTL: time.Minute}), "a").Release
		},
		"Grant.Txn": func(r *rig) func(context.Context) error {
			g := r.lock(r.open(Config{TTL: time.Minute}), "a")
			return func(ctx context.Context) error { return second(g.Txn(ctx).Commit()) }
		},
		"Campaign": func(r *rig) func(context.Context) error {
			e := r.open(Config{TTL: time.Minute}).Election("a")
			return func(ctx context.Context) error { return second(e.Campaign(ctx, "v")) }
		},
		"Leader": func(r *rig) func(context.Context) error {
			e := r.open(Config{TTL: time.Minute}).Election("a")
			return func(ctx context.Context) error { return second(e.Leader(ctx)) }
		},
		"Observe": func(r *rig) func(context.Context) error {
			e := r.open(Config{TTL: time.Minute}).Election("a")
			return func(ctx context.Context) error {
				var last error
				for _, err := range e.Observe(ctx) {
					last = err
				}
				return last
			}
		},
		"Proclaim": func(r *rig) func(context.Context) error {
			l, err := r.open(Config{TTL: time.Minute}).Election("a").Campaign(r.Context(), "v")
			r.must(err)
			return func(ctx context.Context) error { return l.Proclaim(ctx, "w") }
		},
		"Resign": func(r *rig) func(context.Context) error {
			l, err := r.open(Config{TTL: time.Minute}).Election("a").Campaign(r.Context(), "v")
			r.must(err)
			return l.Resign
		},
		"Client.Session": func(r *rig) func(context.Context) error {
			c := r.pool(Config{TTL: time.Minute})
			return func(ctx context.Context) error { return second(c.Session(ctx)) }
		},
		"Client.Lock": func(r *rig) func(context.Context) error {
			c := r.pool(Config{TTL: time.Minute})
			return func(ctx context.Context) error { return second(c.Lock(ctx, "a")) }
		},
		"Client.Close": func(r *rig) func(context.Context) error {
			c := r.pool(Config{TTL: time.Minute})
			_, err := c.Lock(r.Context(), "a")
			r.must(err)
			return c.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				f := prepare(r)
				r.hold(true, true)
				start := time.Now()
				got := make(chan error, 1)
				budget := errors.New("the budget is spent")
				ctx, cancel := context.WithTimeoutCause(r.Context(), 7*time.Second, budget)
				defer cancel()
				go func() { got <- f(ctx) }()
				if err := r.result("the call", got); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, budget) {
					r.Errorf("returned %v, want the context's error and its cause", err)
				}
				if d := time.Since(start); d != 7*time.Second {
					r.Errorf("returned after %v, want 7s", d)
				}
			})
		})
	}
}

// Whoever has waited in vain is told for what.
func TestLock_AWaitInVainTellsWhatItWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(r *rig, s *Session)
		want    string
	}{
		"another's key": {func(r *rig, _ *Session) {
			other := r.another()
			other.lock(other.open(Config{TTL: time.Minute}), "a")
		}, `in line behind "leasehold/a/`},
		"its own": {func(r *rig, s *Session) { r.lock(s, "a") }, "re-entrant"},
		"etcd":    {func(r *rig, _ *Session) { r.hold(true, true) }, "no answer from etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				s := r.open(Config{TTL: time.Minute})
				tc.prepare(r, s)
				if _, err := s.Lock(r.within(time.Second), "a"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), tc.want) {
					r.Errorf("returned %v, want the context's error and %q", err, tc.want)
				}
			})
		})
	}
}

// silentIn calls f, which finds everybody answering and then, after a while, silent.
func (r *rig) silentIn(d time.Duration, f func() error) error {
	r.release(true, true)
	time.AfterFunc(d, func() { r.hold(true, true) })
	return f()
}

func second[A any](_ A, err error) error { return err }

// pool makes a Client that the test's end closes.
func (r *rig) pool(cfg Config) *Client {
	r.Helper()
	c, err := New(r.client, cfg)
	r.must(err)
	r.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

// R11, the other side: a context that ends says nothing about what it was used to make.
func TestNewSession_ContextBoundsTheOpeningOnly(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		s, err := NewSession(ctx, r.client, Config{})
		r.must(err)
		r.Cleanup(s.Abandon)
		cancel()
		time.Sleep(time.Hour)
		if !s.Valid() || s.Context().Err() != nil {
			r.Errorf("lost: %v, %v", s.Err(), context.Cause(s.Context()))
		}
	})
}

// Scenario 20: what fails to open leaves nothing: no goroutine (the bubble would say so), no lease.
func TestNewSession_ThatFailsLeavesNothing(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		gate := r.keepAnswers("Lease/LeaseGrant")
		if _, err := NewSession(r.within(3*time.Second), r.client, Config{TTL: time.Minute}); !errors.Is(err, context.DeadlineExceeded) {
			r.Fatalf("NewSession: %v", err)
		}
		if n := len(gate.answers()); n < 2 || n > 6 {
			r.Errorf("%d grants in 3 s of silence", n)
		}
		time.Sleep(5 * time.Second)
		if left := r.cluster.Leases(); len(left) != 0 {
			r.Errorf("leases left: %x", left)
		}
	})
}
