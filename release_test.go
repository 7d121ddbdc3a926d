// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

func TestRelease_EndsTheBeliefAndFreesTheName(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(30 * time.Second)
	g := mustLock(t, s, "name")
	ctx := g.Context()
	mustRelease(t, g)
	if sc.exists(g.Key()) {
		t.Error("the key is still there")
	}
	wantEnded(t, g, leasehold.ErrReleased)
	wantErr(t, "the context's cause", context.Cause(ctx), leasehold.ErrReleased)
	for range 3 {
		wantErr(t, "release again", g.Release(within(t)), leasehold.ErrReleased)
	}
	mustRelease(t, mustLock(t, s, "name"))
}

// A release whose request is held up on the way, and sent again and again, arrives when the name has another holder, of
// another session or of the same. It frees nothing of theirs.
func TestRelease_ArrivingLateLeavesTheNextGrantAlone(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{false, true} {
		t.Run(map[bool]string{false: "another session", true: "the same session"}[same], func(t *testing.T) {
			t.Parallel()
			sc := trio.scene(t)
			cl := sc.Client(t)
			s := sc.session(cl, 30*time.Second)
			old := mustLock(t, s, "name")
			cl.Hold(leaseholdtest.Up)
			defer cl.Heal()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // several attempts
			defer cancel()
			wantErr(t, "release", old.Release(ctx), context.DeadlineExceeded)
			if err := sc.Delete(within(t), old.Key()); err != nil {
				t.Fatal(err)
			}
			var next *leasehold.Grant
			if same {
				waiting := lockAside(within(t), s, "name")
				cl.Heal() // the acquire travels behind the releases
				next = granted(t, "the next holder", waiting)
			} else {
				next = mustLock(t, sc.newSession(30*time.Second), "name")
				cl.Heal()
			}
			// The session's answers come in order, so the releases have arrived when later requests are answered.
			for range 10 {
				mustRelease(t, mustLock(t, s, "elsewhere"))
			}
			if !next.Valid() || !sc.exists(next.Key()) {
				t.Errorf("the next grant: valid %v, %v, key there %v", next.Valid(), next.Err(), sc.exists(next.Key()))
			}
			mustRelease(t, next)
		})
	}
}

// A context that has ended keeps nobody from giving back: the belief ends at once, and the key goes in the background.
func TestRelease_WithAnEndedContextFreesTheNameInTheBackground(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	g := mustLock(t, s, "name")
	if err := g.Release(ended(t)); err != nil {
		wantErr(t, "release", err, context.Canceled)
	}
	wantEnded(t, g, leasehold.ErrReleased)
	sc.NoKeysWithin(t, step, g.Key())
	if !s.Valid() {
		t.Errorf("the session ended: %v", s.Err())
	}
}

func TestRelease_WithoutANetworkEndsTheBeliefAtOnceAndFreesTheNameAfterwards(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		what string
		make func(*leaseholdtest.Client)
	}{
		{"silent", func(cl *leaseholdtest.Client) { cl.Blackhole(leaseholdtest.Both) }},
		{"no way back", func(cl *leaseholdtest.Client) { cl.Blackhole(leaseholdtest.Down) }},
		{"refused", func(cl *leaseholdtest.Client) { eachLink(cl, (*leaseholdtest.Link).Refuse) }},
	} {
		t.Run(fault.what, func(t *testing.T) {
			t.Parallel()
			sc := trio.scene(t)
			cl := sc.Client(t)
			s := sc.session(cl, time.Minute)
			g := mustLock(t, s, "name")
			fault.make(cl)
			defer cl.Heal()
			ctx, cancel := context.WithCancel(t.Context())
			released := make(chan error, 1)
			go func() { released <- g.Release(ctx) }()
			await(t, "the belief ends while the release is under way", g.Done())
			wantEnded(t, g, leasehold.ErrReleased)
			cancel()
			wantErr(t, "release", await(t, "release returns", released), context.Canceled)
			cl.Heal()
			mustRelease(t, mustLock(t, sc.newSession(time.Minute), "name"))
			if !s.Valid() {
				t.Errorf("the session ended: %v", s.Err())
			}
		})
	}
}

// A lost grant is given back with the reason for its loss, once, and leaves nothing behind, even what somebody else has
// written into its key.
func TestRelease_OfALostGrantTellsWhyAndCleansUp(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	g := mustLock(t, s, "name")
	if err := sc.Overwrite(within(t), g.Key(), "mine"); err != nil {
		t.Fatal(err)
	}
	await(t, "the holder is told", g.Done())
	wantErr(t, "release", g.Release(within(t)), leasehold.ErrRevoked)
	wantErr(t, "release again", g.Release(within(t)), leasehold.ErrReleased)
	sc.NoKeysWithin(t, step, sc.prefix)
}

func TestClose_FreesEverythingAndIsIdempotent(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	a, b := mustLock(t, s, "a"), mustLock(t, s, "b")
	waiting := lockAside(within(t), s, "a")
	sc.awaitLine("a", 2)
	if err := s.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	sc.NoKeys(t, sc.prefix)
	wantEnded(t, a, leasehold.ErrClosed)
	wantEnded(t, b, leasehold.ErrClosed)
	wantErr(t, "the waiter", await(t, "the wait ends", waiting).err, leasehold.ErrClosed)
	wantErr(t, "release", a.Release(within(t)), leasehold.ErrClosed)
	for range 3 {
		if err := s.Close(within(t)); err != nil {
			t.Errorf("close again: %v", err)
		}
	}
	if sc.leaseExists(s.Lease()) {
		t.Error("the lease is still there")
	}
}

// The belief ends before the request that frees the names is sent, so while it is on its way nobody believes.
func TestClose_DuringAnOutageReturnsInTimeAndRevokesAfterwards(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	cl := sc.Client(t)
	s := sc.session(cl, time.Minute)
	g := mustLock(t, s, "name")
	cl.Blackhole(leaseholdtest.Both)
	defer cl.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	wantErr(t, "close", s.Close(ctx), context.DeadlineExceeded)
	wantEnded(t, g, leasehold.ErrClosed)
	cl.Heal()
	mustRelease(t, mustLock(t, sc.newSession(time.Minute), "name"))
}

func TestClose_OfALostSessionIsNoError(t *testing.T) {
	t.Parallel()
	t.Run("revoked", func(t *testing.T) {
		t.Parallel()
		sc := solo.scene(t)
		s := sc.newSession(9 * time.Second)
		if err := sc.RevokeLease(within(t), s.Lease()); err != nil {
			t.Fatal(err)
		}
		await(t, "the session ends", s.Done())
		if err := s.Close(within(t)); err != nil {
			t.Error(err)
		}
	})
	t.Run("expired, and still cut off", func(t *testing.T) {
		t.Parallel()
		sc := solo.scene(t)
		cl := sc.Client(t)
		s := sc.session(cl, 2*time.Second)
		cl.Blackhole(leaseholdtest.Both)
		defer cl.Heal()
		await(t, "the session ends", s.Done())
		if err := s.Close(within(t)); err != nil {
			t.Error(err)
		}
	})
}

func TestClose_AfterTheEtcdClientWasClosedSaysSo(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	cl := sc.Client(t)
	s := sc.session(cl, 9*time.Second)
	pool := sc.pool(cl, 9*time.Second)
	g, pooled := mustLock(t, s, "name"), mustLock(t, pool, "pooled")
	waiting := lockAside(within(t), s, "name")
	sc.awaitLine("name", 2)
	if err := cl.Client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wantErr(t, "the waiter", await(t, "the wait ends", waiting).err, leasehold.ErrClosed)
	wantEnded(t, g, leasehold.ErrClosed)
	wantEnded(t, pooled, leasehold.ErrClosed)
	wantErr(t, "session close", s.Close(within(t)), leasehold.ErrClosed)
	wantErr(t, "release", g.Release(within(t)), leasehold.ErrClosed)
	if _, err := pool.Lock(within(t), "other"); !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("lock on a closed etcd client: %v", err)
	}
	wantErr(t, "client close", pool.Close(within(t)), leasehold.ErrClosed)
	if _, err := leasehold.NewSession(within(t), cl.Client, sc.config(0)); !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("a session on a closed etcd client: %v", err)
	}
	if _, err := leasehold.New(cl.Client, sc.config(0)); !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("a Client on a closed etcd client: %v", err)
	}
	// The keys go with their leases, which run out.
}

func TestDo_ReleasesWhateverBecomesOfTheFunction(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(4 * time.Minute)
	mine := errors.New("mine")
	held := func(fn func(ctx context.Context, g *leasehold.Grant) error) (panicked any, err error) {
		defer func() { panicked = recover() }()
		return nil, s.Do(within(t), "name", fn)
	}
	panicked, err := held(func(ctx context.Context, g *leasehold.Grant) error {
		if carried, ok := leasehold.FromContext(ctx); !ok || carried != g || !g.Valid() {
			t.Errorf("the context carries %v, %v; valid: %v", carried, ok, g.Valid())
		}
		if carried, ok := leasehold.FromContext(g.Context()); !ok || carried != g {
			t.Errorf("the grant's own context carries %v, %v", carried, ok)
		}
		return nil
	})
	if err != nil || panicked != nil {
		t.Errorf("got %v, %v", err, panicked)
	}
	sc.NoKeys(t, sc.prefix)
	if _, err := held(func(context.Context, *leasehold.Grant) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v, want the function's error", err)
	}
	sc.NoKeys(t, sc.prefix)
	if panicked, _ := held(func(context.Context, *leasehold.Grant) error { panic("oops") }); panicked != "oops" {
		t.Errorf("panicked with %v", panicked)
	}
	sc.NoKeys(t, sc.prefix)
	// The function's context ends with the grant, for the grant's reason, and Do tells it.
	_, err = held(func(ctx context.Context, g *leasehold.Grant) error {
		if err := sc.Delete(within(t), g.Key()); err != nil {
			t.Error(err)
		}
		await(t, "the function's context ends", ctx.Done())
		wantErr(t, "the context's cause", context.Cause(ctx), leasehold.ErrRevoked)
		return mine
	})
	wantErr(t, "Do", err, leasehold.ErrRevoked, mine)
	// It ends with the caller's context too, and the release goes out all the same.
	ctx, cancel := context.WithCancel(t.Context())
	err = s.Do(ctx, "name", func(ctx context.Context, g *leasehold.Grant) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	})
	wantErr(t, "Do", err, context.Canceled)
	sc.NoKeys(t, sc.prefix)
}
