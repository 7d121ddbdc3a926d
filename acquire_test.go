// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// An acquire is given up while its request or its answer is on the way. The key that it may have left, at once or when
// what was held arrives, must not block the name, although the session goes on and keeps its other grants.
func TestLock_AnAbandonedAcquireFreesTheName(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault string
		make  func(*leaseholdtest.Link)
	}{
		{"the request is late", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Up) }},
		{"the answer is late", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Down) }},
		{"the request is lost", func(l *leaseholdtest.Link) { l.Blackhole(leaseholdtest.Up) }},
		{"the answer is lost", func(l *leaseholdtest.Link) { l.Blackhole(leaseholdtest.Down) }},
		{"nothing gets through", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Both) }},
	}
	for _, tt := range tests {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/try=%v", tt.fault, try), func(t *testing.T) {
				t.Parallel()
				sc := solo.scene(t)
				cl := sc.Client(t)
				s := sc.session(cl, 30*time.Second)
				kept := mustLock(t, s, "kept")
				tt.make(cl.Link(sc.Member(0)))
				defer cl.Heal()
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond) // several attempts
				defer cancel()
				lock := s.Lock
				if try {
					lock = s.TryLock
				}
				if _, err := lock(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("lock: %v, want %v", err, context.DeadlineExceeded)
				}
				cl.Heal()
				next := mustLock(t, sc.newSession(30*time.Second), "name")
				if !kept.Valid() {
					t.Fatalf("another grant of the session ended: %v", kept.Err())
				}
				// Nor may a late attempt leave a key behind the next holder.
				mustRelease(t, next)
				sc.NoKeysWithin(t, step, sc.prefix+"name/")
				if !kept.Valid() {
					t.Fatalf("another grant of the session ended: %v", kept.Err())
				}
			})
		}
	}
}

// Calls are cancelled at random points of their short lives. Each either holds the lock or leaves nothing.
func TestLock_CancelledAtAnyPointLeavesNothing(t *testing.T) {
	t.Parallel()
	sc := trio.scene(t)
	s := sc.newSession(time.Minute)
	rng := rand.New(rand.NewPCG(leaseholdtest.Seed(t), 0))
	begin := time.Now()
	mustRelease(t, mustLock(t, s, "name"))
	trip := time.Since(begin)
	var wg sync.WaitGroup
	for i := range 400 {
		after, name := time.Duration(rng.Int64N(int64(3*trip))), fmt.Sprint("name", i%20)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			lock := s.Lock
			if i%3 == 0 {
				lock = s.TryLock
			}
			g, err := lock(ctx, name)
			switch {
			case err == nil:
				if err := g.Release(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("release: %v", err)
				}
			case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, leasehold.ErrLocked):
				t.Errorf("lock: %v", err)
			}
		})
	}
	wg.Wait()
	sc.NoKeysWithin(t, step, sc.prefix)
	if !s.Valid() {
		t.Errorf("the session ended: %v", s.Err())
	}
}

// The server is silent and the network tells nobody. Every blocking call returns when its context ends, long before the
// server speaks again.
func TestCalls_ReturnWithTheirContextWhileTheServerIsSilent(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	cl := sc.Client(t)
	s := sc.session(cl, time.Minute)
	pool := sc.pool(cl, time.Minute)
	held, done := mustLock(t, s, "held"), mustLock(t, s, "done")
	cl.Hold(leaseholdtest.Both)
	defer cl.Heal()
	calls := map[string]func(ctx context.Context) error{
		"Session.Lock":            func(ctx context.Context) error { _, err := s.Lock(ctx, "free"); return err },
		"Session.Lock, contended": func(ctx context.Context) error { _, err := s.Lock(ctx, "held"); return err },
		"Session.TryLock":         func(ctx context.Context) error { _, err := s.TryLock(ctx, "free"); return err },
		"Session.Do": func(ctx context.Context) error {
			return s.Do(ctx, "free", func(context.Context, *leasehold.Grant) error { return nil })
		},
		"Client.Lock":    func(ctx context.Context) error { _, err := pool.Lock(ctx, "free"); return err },
		"Client.TryLock": func(ctx context.Context) error { _, err := pool.TryLock(ctx, "free"); return err },
		"Client.Session": func(ctx context.Context) error { _, err := pool.Session(ctx); return err },
		"NewSession": func(ctx context.Context) error {
			_, err := leasehold.NewSession(ctx, cl.Client, sc.config(time.Minute))
			return err
		},
		"Grant.Release": done.Release,
	}
	var wg sync.WaitGroup
	for what, call := range calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			wantErr(t, what, call(ctx), context.DeadlineExceeded)
		})
	}
	returned := make(chan struct{})
	go func() { wg.Wait(); close(returned) }()
	await(t, "all calls return", returned)
	if !held.Valid() || done.Valid() {
		t.Errorf("held is valid: %v, released is valid: %v", held.Valid(), done.Valid())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	wantErr(t, "Session.Close", s.Close(ctx), context.DeadlineExceeded)
	wantEnded(t, held, leasehold.ErrClosed)
	cl.Heal()
	sc.NoKeysWithin(t, step, sc.prefix) // what was given up is cleaned up behind
}

// Whatever interrupts a wait, the place in line is kept, and its turn comes.
func TestLock_TheWaitOutlivesWhatInterruptsIt(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what string
		do   func(t *testing.T, sc *scene, cl *leaseholdtest.Client)
	}{
		{"nothing", func(*testing.T, *scene, *leaseholdtest.Client) {}},
		{"a compaction", func(t *testing.T, sc *scene, _ *leaseholdtest.Client) {
			for range 3 {
				if _, err := sc.operator().Put(within(t), "elsewhere", ""); err != nil {
					t.Fatal(err)
				}
				if _, err := sc.Compact(within(t)); err != nil {
					t.Fatal(err)
				}
			}
		}},
		{"a reset", func(_ *testing.T, _ *scene, cl *leaseholdtest.Client) { cl.Reset() }},
		{"a reset and a compaction", func(t *testing.T, sc *scene, cl *leaseholdtest.Client) {
			eachLink(cl, func(l *leaseholdtest.Link) { l.Refuse() })
			if _, err := sc.Compact(within(t)); err != nil {
				t.Fatal(err)
			}
			cl.Heal()
		}},
		{"a silent second", func(_ *testing.T, _ *scene, cl *leaseholdtest.Client) {
			cl.Blackhole(leaseholdtest.Both)
			time.Sleep(time.Second)
			cl.Heal()
		}},
		{"three resets and a slow network", func(_ *testing.T, _ *scene, cl *leaseholdtest.Client) {
			for range 3 {
				cl.Reset()
				eachLink(cl, func(l *leaseholdtest.Link) { l.Delay(leaseholdtest.Both, 100*time.Millisecond, 100*time.Millisecond) })
				time.Sleep(200 * time.Millisecond)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			sc := trio.scene(t)
			holder := sc.newSession(30 * time.Second)
			cl := sc.Client(t)
			s := sc.session(cl, 30*time.Second)
			defer cl.Heal()
			g := mustLock(t, holder, "name")
			second := lockAside(within(t), s, "name")
			sc.awaitLine("name", 2)
			third := lockAside(within(t), s, "name") // this one watches only the place ahead
			line := sc.awaitLine("name", 3)
			tt.do(t, sc, cl)
			mustRelease(t, g)
			g2 := granted(t, "the second in line", second)
			if g2.Key() != line[1] {
				t.Errorf("the second in line holds %s, and stood in line as %s", g2.Key(), line[1])
			}
			if r, err := pending(third); !err {
				t.Errorf("the third in line has the lock already: %+v", r)
			}
			mustRelease(t, g2)
			g3 := granted(t, "the third in line", third)
			if g3.Key() != line[2] {
				t.Errorf("the third in line holds %s, and stood in line as %s", g3.Key(), line[2])
			}
			if g2.Token() <= g.Token() || g3.Token() <= g2.Token() {
				t.Errorf("tokens %v, %v, %v", g.Token(), g2.Token(), g3.Token())
			}
		})
	}
}

// pending reports whether nothing has come over ch yet, and otherwise what.
func pending[T any](ch <-chan T) (v T, ok bool) {
	select {
	case v := <-ch:
		return v, false
	default:
		return v, true
	}
}

// A waiter whose own place is taken away is told while its predecessor still holds the lock.
func TestLock_AWaiterIsToldWhenItsOwnPlaceGoes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what string
		take func(sc *scene, s *leasehold.Session, key string) error
	}{
		{"delete the key", func(sc *scene, _ *leasehold.Session, key string) error { return sc.Delete(within(sc.t), key) }},
		{"overwrite the key", func(sc *scene, _ *leasehold.Session, key string) error {
			return sc.Overwrite(within(sc.t), key, "mine")
		}},
		{"revoke the lease", func(sc *scene, s *leasehold.Session, _ string) error {
			return sc.RevokeLease(within(sc.t), s.Lease())
		}},
	}
	for _, tt := range tests {
		for place, what := range []string{1: "second", 2: "third"} {
			if place == 0 {
				continue
			}
			t.Run(tt.what+"/"+what+" in line", func(t *testing.T) {
				t.Parallel()
				sc := solo.scene(t)
				holder, s := sc.newSession(4*time.Minute), sc.newSession(4*time.Minute)
				g := mustLock(t, holder, "name")
				for i := range place - 1 {
					lockAside(t.Context(), holder, "name")
					sc.awaitLine("name", 2+i)
				}
				waiting := lockAside(within(t), s, "name")
				key := sc.awaitLine("name", 1+place)[place]
				if err := tt.take(sc, s, key); err != nil {
					t.Fatal(err)
				}
				r := await(t, "the waiter is told", waiting)
				wantErr(t, "lock", r.err, leasehold.ErrRevoked)
				if !g.Valid() {
					t.Errorf("the holder's grant ended: %v", g.Err())
				}
				leaseholdtest.Eventually(t, step, "the waiter's key is gone", func() bool { return !sc.exists(key) })
			})
		}
	}
}

// The member that a waiter's watch hangs on is cut off from the others, though not from the waiter, whose lease is
// renewed elsewhere. Each member in turn, so that the watch is on it once.
func TestLock_AMemberWithoutQuorumDoesNotHideTheFreeLock(t *testing.T) {
	t.Parallel()
	sc := stage(t, leaseholdtest.Options{Members: 3})
	holder, s := sc.newSession(30*time.Second), sc.newSession(30*time.Second)
	for _, m := range sc.Members() {
		g := mustLock(t, holder, "name")
		waiting := lockAside(within(t), s, "name")
		sc.awaitLine("name", 2)
		sc.Isolate(m)
		leaseholdtest.Eventually(t, step, "the others have a leader", func() bool { l := sc.Leader(); return l != nil && l != m })
		mustRelease(t, g)
		mustRelease(t, granted(t, "the waiter, with "+m.Name()+" cut off", waiting))
		sc.Rejoin(m)
		if err := sc.Settle(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Err(), holder.Err()); err != nil {
		t.Errorf("a session ended: %v", err)
	}
}

// TryLock on a name that is taken writes nothing at all, whether the name is held or only waited for.
func TestTryLock_WritesNothingWhenTheNameIsTaken(t *testing.T) {
	t.Parallel()
	sc := stage(t, leaseholdtest.Options{})
	s := sc.newSession(30 * time.Second)
	cfg := sc.config(30 * time.Second)
	cfg.Holder = "somebody"
	other, err := leasehold.NewSession(within(t), sc.Client(t).Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAtEnd(t, other) })
	g := mustLock(t, other, "name")
	waiting := lockAside(within(t), other, "name")
	line := sc.awaitLine("name", 2)
	before := sc.revision()
	for range 10 {
		_, err := s.TryLock(within(t), "name")
		var locked *leasehold.LockedError
		if !errors.As(err, &locked) || *locked != (leasehold.LockedError{Name: "name", Holder: "somebody", Token: g.Token()}) {
			t.Fatalf("TryLock: %#v", err)
		}
	}
	if after := sc.revision(); after != before {
		t.Errorf("TryLock took the store from revision %d to %d", before, after)
	}
	if now := sc.line("name"); len(now) != 2 || now[0] != line[0] || now[1] != line[1] {
		t.Errorf("the line was %q and is %q", line, now)
	}
	mustRelease(t, g)
	mustRelease(t, granted(t, "the waiter", waiting))
}

func eachLink(cl *leaseholdtest.Client, f func(*leaseholdtest.Link)) {
	for _, l := range cl.Links() {
		f(l)
	}
}
