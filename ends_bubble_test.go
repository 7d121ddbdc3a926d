// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"example.com/leasehold/internal/etcdfake"
)

// stuckCore is a log sink that blocks, as a full pipe does.
type stuckCore struct {
	zapcore.LevelEnabler
	stuck chan struct{}
}

func (s stuckCore) With([]zapcore.Field) zapcore.Core { return s }
func (s stuckCore) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, s)
}
func (s stuckCore) Write(zapcore.Entry, []zapcore.Field) error { <-s.stuck; return nil }
func (s stuckCore) Sync() error                                { return nil }

func TestBlockedLoggerDoesNotBlockExpiry(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		stuck := make(chan struct{})
		r.Cleanup(func() { close(stuck) })
		s := r.open(Config{Logger: zap.New(stuckCore{LevelEnabler: zapcore.InfoLevel, stuck: stuck})})
		expiry := r.expiryOf(s)
		r.hold(true, true)
		defer r.release(true, true)
		r.ended("the session's context", s.Done(), time.Minute)
		if late := time.Since(expiry); late != 0 {
			r.Errorf("the context ended %v after the expiry", late)
		}
		if s.Valid() {
			r.Error("valid after the expiry")
		}
	})
}

// Do with an ended context returns within a small grace although etcd is silent.
func TestDo_ReturnsSoonAfterItsContextAlthoughEtcdIsSilent(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{TTL: time.Minute})
		ctx, cancel := context.WithCancel(r.Context())
		var ended time.Time
		err := s.Do(ctx, "a", func(ctx context.Context, _ *Grant) error {
			r.hold(true, true)
			cancel()
			ended = time.Now()
			return ctx.Err()
		})
		if took := time.Since(ended); took > releaseGrace || !errors.Is(err, context.Canceled) {
			r.Errorf("Do returned %v, %v after its context had ended, want at most %v", err, took, releaseGrace)
		}
		r.release(true, true)
		r.quiet()
	})
}

// Close at any instant of an opening: before its request, while that is under way, after its answer.
func TestClient_CloseDuringAnOpeningLeavesNoLease(t *testing.T) {
	for at := range 12 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			bubble(t, etcdfake.Options{CommitLatency: time.Millisecond}, func(r *rig) {
				r.delay(2*time.Millisecond, 2*time.Millisecond)
				pool, err := New(r.client, Config{TTL: time.Minute})
				r.must(err)
				locked := make(chan error, 1)
				go func() {
					_, err := pool.Lock(r.Context(), "a")
					locked <- err
				}()
				time.Sleep(time.Duration(at) * time.Millisecond)
				r.must(pool.Close(r.Context()))
				if err := r.result("Lock", locked); err != nil && !errors.Is(err, ErrClosed) {
					r.Errorf("Lock beside Close: %v", err)
				}
				time.Sleep(2 * time.Second) // what was given up half-way is revoked
				leases, err := r.another().client.Leases(r.Context())
				r.must(err)
				if n := len(leases.Leases); n > 0 {
					r.Errorf("%d leases of a minute are left after Close", n)
				}
			})
		})
	}
}

// Sessions are opened while the etcd client is closed, at any instant.
func TestNewSession_WhileTheEtcdClientIsClosedSaysSo(t *testing.T) {
	for at := range 24 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			bubble(t, etcdfake.Options{CommitLatency: time.Millisecond}, func(r *rig) {
				r.delay(2*time.Millisecond, 2*time.Millisecond)
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() {
						s, err := NewSession(r.Context(), r.client, Config{})
						if err != nil {
							if !errors.Is(err, ErrClosed) {
								r.Errorf("open: %v", err)
							}
							return
						}
						if err := s.Close(r.Context()); err != nil && !errors.Is(err, ErrClosed) {
							r.Errorf("close: %v", err)
						}
					})
				}
				time.Sleep(time.Duration(at) * 500 * time.Microsecond)
				_ = r.client.Close()
				wg.Wait()
			})
		})
	}
}

// A session got from the pool is not closed under its user.
func TestClient_DoesNotCloseASessionUnderItsUser(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		pool, err := New(r.client, Config{})
		r.must(err)
		a, err := pool.Session(r.Context())
		r.must(err)
		a.load.Add(perLease) // full
		b, err := pool.Session(r.Context())
		r.must(err)
		if a == b {
			r.Fatal("a full session was handed out")
		}
		a.load.Add(-perLease)
		r.must(r.lock(b, "x").Release(r.Context()))
		synctest.Wait()
		if _, err := b.Lock(r.Context(), "x"); err != nil {
			r.Errorf("the session handed out was closed under its user: %v", err)
		}
		r.must(pool.Close(r.Context()))
	})
}

// Releasing the last grant of a session that the pool no longer needs is a success.
func TestRelease_OfTheLastGrantOfASpareSessionSucceeds(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		pool, err := New(r.client, Config{})
		r.must(err)
		var grants []*Grant
		for i := range perLease + 1 {
			g, err := pool.Lock(r.Context(), fmt.Sprint(i))
			r.must(err)
			grants = append(grants, g)
		}
		for _, g := range grants[:perLease/2+10] {
			r.must(g.Release(r.Context()))
		}
		if err := grants[perLease].Release(r.Context()); err != nil {
			r.Errorf("release of a grant that was held until now: %v", err)
		}
		r.must(pool.Close(r.Context()))
	})
}

// A config that is accepted can be renewed: here the local term is less than a third of the granted one.
func TestConfig_WhatIsAcceptedCanBeRenewed(t *testing.T) {
	bubble(t, etcdfake.Options{ElectionTimeout: 200 * time.Millisecond}, func(r *rig) {
		s := r.open(Config{TTL: 2 * time.Second, Margin: time.Second, DriftBound: maxDriftBound})
		time.Sleep(10 * time.Minute)
		if !s.Valid() {
			r.Errorf("lost without any fault: %v", s.Err())
		}
	})
}

// Run waits for the call of OnNewLeader that is under way when its context ends, and for no further one.
func TestElector_RunBeginsNoCallOfOnNewLeaderAfterItsEnd(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		calls, under := 0, make(chan struct{})
		e, err := NewElector(r.pool(Config{}), ElectorConfig{
			Name: "e", Value: "first",
			OnStartedLeading: func(ctx context.Context, l *Leadership) {
				<-under
				r.must(l.Proclaim(ctx, "second"))
				time.Sleep(time.Second / 2) // it has been heard
				cancel()
				<-ctx.Done()
			},
			OnNewLeader: func(Leader) {
				if calls++; calls == 1 {
					close(under)
				}
				time.Sleep(time.Second)
			},
		})
		r.must(err)
		start := time.Now()
		r.must(e.Run(ctx))
		if d := time.Since(start); calls != 1 || d != time.Second {
			r.Errorf("%d calls, and Run ended after %v", calls, d)
		}
	})
}
