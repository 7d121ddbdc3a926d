// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

func TestSession_GoroutinesExcludeEachOther(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	first := mustLock(t, s, "name")
	second := lockAside(within(t), s, "name")
	line := sc.awaitLine("name", 2)
	// A TryLock of the same session evicts nobody.
	_, err := s.TryLock(within(t), "name")
	var locked *leasehold.LockedError
	if !errors.As(err, &locked) || locked.Token != first.Token() {
		t.Errorf("TryLock: %v, want it locked with token %v", err, first.Token())
	}
	if now := sc.line("name"); len(now) != 2 || now[1] != line[1] {
		t.Errorf("the line was %q and is %q", line, now)
	}
	if r, waits := pending(second); !waits {
		t.Fatalf("the second goroutine has the lock together with the first: %+v", r)
	}
	mustRelease(t, first)
	g := granted(t, "the second goroutine", second)
	if g.Token() <= first.Token() || g.Key() == first.Key() {
		t.Errorf("tokens %v and %v, keys %q and %q", first.Token(), g.Token(), first.Key(), g.Key())
	}
	mustRelease(t, g)
}

// Acquires of many names share transactions. Each has a token of its own all the same, within its name and beside it.
func TestSession_EveryAcquisitionHasATokenThatRises(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	const names, rounds = 40, 5
	tokens := make([][]leasehold.Token, names)
	var wg sync.WaitGroup
	for n := range names {
		wg.Go(func() {
			for range rounds {
				g, err := s.Lock(within(t), fmt.Sprint(n))
				if err != nil {
					t.Error(err)
					return
				}
				tokens[n] = append(tokens[n], g.Token())
				if err := g.Release(within(t)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for n, of := range tokens {
		for i := 1; i < len(of); i++ {
			if of[i] <= of[i-1] {
				t.Errorf("name %d: tokens %v", n, of)
			}
		}
	}
}

// crowd is many users of a few names, who watch over each other.
type crowd struct {
	t    *testing.T
	held []atomic.Int32 // holders, by name
	mu   []sync.Mutex
	last []leasehold.Token // by name; guarded by mu

	locks, tries, cancels atomic.Int64 // how many ended so
}

// use takes a name once, in one of several ways.
func (c *crowd) use(l locker, name int, rng *rand.Rand) {
	ctx, lock := within(c.t), l.Lock
	switch rng.IntN(4) {
	case 0:
		lock = l.TryLock
	case 1:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(300*time.Millisecond))))
		defer cancel()
	}
	g, err := lock(ctx, fmt.Sprint(name))
	switch {
	case errors.Is(err, leasehold.ErrLocked):
		c.tries.Add(1)
		return
	case errors.Is(err, context.DeadlineExceeded):
		c.cancels.Add(1)
		return
	case err != nil:
		c.t.Error(err)
		return
	}
	c.locks.Add(1)
	if n := c.held[name].Add(1); n != 1 {
		c.t.Errorf("%d holders of %d", n, name)
	}
	c.mu[name].Lock()
	if g.Token() <= c.last[name] {
		c.t.Errorf("name %d: token %v after %v", name, g.Token(), c.last[name])
	}
	c.last[name] = g.Token()
	c.mu[name].Unlock()
	if !g.Valid() {
		c.t.Errorf("the grant was lost: %v", g.Err())
	}
	c.held[name].Add(-1)
	if err := g.Release(within(c.t)); err != nil {
		c.t.Errorf("release: %v", err)
	}
}

// A thousand goroutines share one session, and contend with two others for five names. They lock, try and give up at random.
func TestSession_AThousandGoroutinesOnFiveNames(t *testing.T) {
	t.Parallel()
	const goroutines, foreign, names = 1000, 50, 5
	sc := solo.scene(t)
	c := &crowd{t: t, held: make([]atomic.Int32, names), mu: make([]sync.Mutex, names), last: make([]leasehold.Token, names)}
	seed := leaseholdtest.Seed(t)
	s := sc.newSession(time.Minute)
	others := []locker{sc.newSession(time.Minute), sc.newSession(time.Minute)}
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			c.use(s, i%names, rng)
		})
	}
	for i := range foreign * len(others) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(goroutines+i)))
			c.use(others[i%len(others)], i%names, rng)
		})
	}
	wg.Wait()
	t.Logf("%d held the lock, %d found it taken, %d gave up, in %v", c.locks.Load(), c.tries.Load(), c.cancels.Load(), time.Since(begin))
	sc.NoKeysWithin(t, step, sc.prefix)
	if !s.Valid() {
		t.Errorf("the session ended: %v", s.Err())
	}
}

// What ends one session of a pool is no concern of the calls that follow, nor of the grants on other sessions.
func TestClient_ReplacesALostSessionForNewCalls(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	c := sc.pool(sc.Client(t), 9*time.Second)
	for range 3 {
		old := mustLock(t, c, "old")
		waiting := lockAside(within(t), old.Session(), "old")
		sc.awaitLine("old", 2)
		if err := sc.RevokeLease(within(t), old.Session().Lease()); err != nil {
			t.Fatal(err)
		}
		// At once, while the old session may not know yet: etcd refuses its lease, and the caller is not to suffer for it
		// more than once.
		g, err := c.Lock(within(t), "new")
		if err != nil {
			wantErr(t, "lock on the session that was revoked", err, leasehold.ErrRevoked)
			g = mustLock(t, c, "new")
		}
		if g.Session() == old.Session() {
			t.Error("a call was given a session that is lost")
		}
		await(t, "the old session's holder is told", old.Done())
		wantErr(t, "the old session's waiter", await(t, "the wait ends", waiting).err, leasehold.ErrRevoked)
		if !g.Valid() {
			t.Errorf("the new grant ended with the old session: %v", g.Err())
		}
		wantErr(t, "release of the old", old.Release(within(t)), leasehold.ErrRevoked)
		mustRelease(t, g)
	}
}

// While the cluster is away, calls wait for a session together, and do not hammer.
func TestClient_OpensSessionsWithBackoff(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	probe := newProbe()
	cl := probe.client(sc)
	c := sc.pool(cl, 30*time.Second)
	eachLink(cl, (*leaseholdtest.Link).Refuse)
	defer cl.Heal()
	const length = 4 * time.Second
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			_, err := c.Lock(ctx, "name")
			wantErr(t, "lock", err, context.DeadlineExceeded)
		})
	}
	wg.Wait()
	if n := probe.called()[grantMethod]; n == 0 || n > 40 {
		t.Errorf("%d attempts to open a session in %v, want some, but not many", n, length)
	}
	if n := probe.allCalled(); n > 120 { // what cleans up behind them included
		t.Errorf("%d requests in %v: %v", n, length, probe.called())
	}
	cl.Heal()
	mustRelease(t, mustLock(t, c, "name"))
}

// The context of a constructor bounds the construction and nothing after it.
func TestNewSession_OutlivesTheContextItWasOpenedWith(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	ctx, cancel := context.WithTimeout(t.Context(), step)
	s, err := leasehold.NewSession(ctx, sc.Client(t).Client, sc.config(9*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAtEnd(t, s) })
	g := mustLock(t, s, "name")
	c := sc.pool(sc.Client(t), 9*time.Second)
	pooled, err := c.Lock(ctx, "pooled")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for range 2 {
		awaitExtension(t, g)
		awaitExtension(t, pooled)
	}
	if !g.Valid() || !pooled.Valid() {
		t.Errorf("ended: %v, %v", g.Err(), pooled.Err())
	}
}

// An opening that fails leaves no lease behind, even if only its answer was lost. (Of a request that is late itself, see
// TestNewSession_ALateGrantIsRevoked.)
func TestNewSession_ThatFailsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const ttl = 277 * time.Second
	sc := solo.scene(t)
	cl := sc.Client(t)
	if _, err := cl.Get(within(t), "x"); err != nil { // connects
		t.Fatal(err)
	}
	cl.Hold(leaseholdtest.Down)
	defer cl.Heal()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		_, err := leasehold.NewSession(ctx, cl.Client, sc.config(ttl))
		opened <- err
	}()
	leaseholdtest.Eventually(t, step, "a lease is granted", func() bool { return len(sc.leases(ttl)) > 0 })
	cancel()
	wantErr(t, "open", await(t, "the opening ends", opened), context.Canceled)
	cl.Heal()
	leaseholdtest.Eventually(t, step, "the leases that nobody has are gone", func() bool { return len(sc.leases(ttl)) == 0 })
}

// A pool spreads its grants over several leases, and gives up those that it does not need any more.
func TestClient_SpreadsGrantsOverLeases(t *testing.T) {
	t.Parallel()
	const ttl, n = 283 * time.Second, 600
	sc := solo.scene(t)
	c := sc.pool(sc.Client(t), ttl)
	grants := lockMany(t, c, n)
	perLease := make(map[*leasehold.Session]int)
	for _, g := range grants {
		perLease[g.Session()]++
	}
	for s, k := range perLease {
		if k > 400 {
			t.Errorf("lease %x has %d keys", s.Lease(), k)
		}
	}
	if len(perLease) < 2 || len(perLease) > 6 {
		t.Errorf("%d grants on %d leases", n, len(perLease))
	}
	releaseMany(t, grants)
	leaseholdtest.Eventually(t, step, "most leases are given up", func() bool { return len(sc.leases(ttl)) <= 2 })
	if err := c.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if left := sc.leases(ttl); len(left) > 0 {
		t.Errorf("leases are left after Close: %x", left)
	}
	if _, err := c.Lock(within(t), "name"); !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("lock after Close: %v", err)
	}
}

// lockMany locks n names side by side.
func lockMany(t testing.TB, l locker, n int) []*leasehold.Grant {
	t.Helper()
	grants := make([]*leasehold.Grant, n)
	inParallel(n, func(i int) {
		g, err := l.Lock(within(t), fmt.Sprint("many", i))
		if err != nil {
			t.Errorf("lock: %v", err)
		}
		grants[i] = g
	})
	if t.Failed() {
		t.FailNow()
	}
	return grants
}

func releaseMany(t testing.TB, grants []*leasehold.Grant) {
	t.Helper()
	inParallel(len(grants), func(i int) {
		if err := grants[i].Release(within(t)); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

// inParallel calls f for 0 to n-1, a few hundred at a time.
func inParallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, 256) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
}

// A session that a pool has handed out stays open for whoever has it, although the pool has room elsewhere.
func TestClient_DoesNotCloseASessionThatItHandedOut(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	c := sc.pool(sc.Client(t), time.Minute)
	grants := lockMany(t, c, 300) // on two leases
	s, err := c.Session(within(t))
	if err != nil {
		t.Fatal(err)
	}
	var here, elsewhere []*leasehold.Grant
	for _, g := range grants {
		if g.Session() == s {
			here = append(here, g)
		} else {
			elsewhere = append(elsewhere, g)
		}
	}
	for _, g := range append(elsewhere[1:], here...) { // one after the other, the session's last
		mustRelease(t, g)
	}
	if !s.Valid() {
		t.Fatalf("the session was closed: %v", s.Err())
	}
	mustRelease(t, mustLock(t, s, "name"))
	mustRelease(t, elsewhere[0])
}
