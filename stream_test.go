// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// The member that carries the stream falls silent, and nothing is reset: each member in turn, with a client of default
// settings. The sessions live on, and an acquire and a wait that are under way succeed.
func TestSession_SurvivesASilentMember(t *testing.T) {
	t.Parallel()
	for i := range 3 {
		t.Run(fmt.Sprint("member ", i), func(t *testing.T) {
			t.Parallel()
			sc := trio.scene(t)
			const ttl = 12 * time.Second
			silent := sc.Member(i)
			probe := newProbe()
			cl := probe.client(sc)
			defer cl.Heal()
			var s *leasehold.Session
			carried := func() bool { return s != nil && s.Valid() && probe.carriedBy(cl, i) }
			var kept, contended *leasehold.Grant
			var waiting <-chan result
			for try := 0; !carried(); try++ { // on a busy machine the stream may move by itself
				name := fmt.Sprint("contended", try)
				// The stream is moved to the member by silencing the others first.
				for _, m := range sc.Members() {
					if m != silent {
						cl.Link(m).Blackhole(leaseholdtest.Both)
					}
				}
				s = sc.session(cl, ttl)
				leaseholdtest.Eventually(t, step, "the member carries the stream", func() bool {
					if !s.Valid() {
						s = sc.session(cl, ttl) // it did not find the member in time
					}
					return probe.carriedBy(cl, i)
				})
				cl.Heal()
				kept = mustLock(t, s, fmt.Sprint("kept", try))
				contended = mustLock(t, sc.newSession(time.Minute), name)
				waiting = lockAside(within(t), s, name)
				sc.awaitLine(name, 2)
			}

			begin := time.Now()
			var acquires []<-chan result
			for k := range 8 { // under way while the member falls silent
				acquires = append(acquires, lockAside(within(t), s, fmt.Sprint("free", k)))
				if k == 3 {
					cl.Link(silent).Blackhole(leaseholdtest.Both)
				}
			}
			var grants []*leasehold.Grant
			for _, a := range acquires {
				grants = append(grants, granted(t, "an acquire under way", a))
			}
			mustRelease(t, contended)
			grants = append(grants, granted(t, "a wait under way", waiting))
			for time.Since(begin) < ttl+ttl/2 { // longer than any answer before the silence lasts
				if !s.Valid() {
					t.Fatalf("the session ended %v after the member fell silent: %v", time.Since(begin), s.Err())
				}
				time.Sleep(10 * time.Millisecond)
			}
			for _, g := range append(grants, kept) {
				if !g.Valid() {
					t.Errorf("%s: %v", g.Name(), g.Err())
				}
			}
			releaseMany(t, append(grants, kept))
		})
	}
}

// Some leases get no answer any more, and hold up everything behind them on every stream on which they are asked for. The
// others are renewed in time, and the stuck ones expire on time.
func TestSession_StuckLeasesDelayNoOther(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	const ttl, healthy, stuck = 9 * time.Second, 40, 3
	probe := newProbe()
	cl := probe.client(sc)
	var bad, good []*leasehold.Session
	for i := range healthy + stuck {
		s := sc.session(cl, ttl)
		if i%10 == 0 && len(bad) < stuck {
			probe.setStuck(s.Lease())
			bad = append(bad, s)
		} else {
			good = append(good, s)
		}
	}
	var wg sync.WaitGroup
	for _, s := range bad {
		wg.Go(func() { await(t, "a session without answers expires", s.Done()) })
	}
	wg.Wait()
	inParallel(len(good), func(i int) { awaitExtension(t, good[i]) })
	for _, s := range bad {
		wantErr(t, "a session without answers", s.Err(), leasehold.ErrExpired)
	}
	for i, s := range good {
		if !s.Valid() {
			t.Errorf("session %d: %v", i, s.Err())
		}
	}
}

// Hundreds of leases expire at once. A session that is opened afterwards on the same stream does not wait for them.
func TestSession_ManyExpiredLeasesDelayNoOther(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	probe := newProbe()
	cl := probe.client(sc)
	kept := sc.session(cl, time.Minute)
	sessions := make([]*leasehold.Session, 300)
	inParallel(len(sessions), func(i int) { sessions[i] = sc.session(cl, 3*time.Second) })
	if t.Failed() {
		return
	}
	cl.Hold(leaseholdtest.Both)
	defer cl.Heal()
	for _, s := range sessions {
		await(t, "a session that is cut off ends", s.Done())
	}
	cl.Heal()
	fresh := sc.session(cl, 6*time.Second)
	for range 2 {
		awaitExtension(t, fresh)
	}
	if err := errors.Join(fresh.Err(), kept.Err()); err != nil {
		t.Error(err)
	}
}

// Nothing is sent for a lease once it is lost, however it was lost.
func TestSession_ALostLeaseIsNeverRenewedAgain(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	tests := []struct {
		what string
		lose func(sc *scene, cl *leaseholdtest.Client, s *leasehold.Session)
	}{
		{"expired", func(sc *scene, cl *leaseholdtest.Client, s *leasehold.Session) {
			cl.Hold(leaseholdtest.Both)
			await(sc.t, "the session ends", s.Done())
			cl.Heal()
		}},
		{"revoked", func(sc *scene, _ *leaseholdtest.Client, s *leasehold.Session) {
			if err := sc.RevokeLease(within(sc.t), s.Lease()); err != nil {
				sc.t.Fatal(err)
			}
		}},
		{"closed", func(sc *scene, _ *leaseholdtest.Client, s *leasehold.Session) { closeAtEnd(sc.t, s) }},
		{"abandoned", func(_ *scene, _ *leaseholdtest.Client, s *leasehold.Session) { s.Abandon() }},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			sc := solo.scene(t)
			probe := newProbe()
			cl := probe.client(sc)
			kept, s := sc.session(cl, time.Minute), sc.session(cl, ttl)
			probe.awaitRenewal(t, s.Lease())
			tt.lose(sc, cl, s)
			await(t, "the session ends", s.Done())
			before := probe.renewed(s.Lease())
			time.Sleep(ttl)
			if after := probe.renewed(s.Lease()); after > before+1 { // one may have been on its way
				t.Errorf("%d renewals were sent for a lease that was lost", after-before)
			}
			if !kept.Valid() {
				t.Errorf("another session ended: %v", kept.Err())
			}
		})
	}
}

// The cluster is down for half a minute. The sessions with short terms are told; the others go on afterwards, their
// waiters in the order in which they came; and nobody spins meanwhile.
func TestSession_AClusterThatComesBackFindsWaitersInOrder(t *testing.T) {
	t.Parallel()
	const down, waiters = 30 * time.Second, 50
	sc := stage(t, leaseholdtest.Options{})
	probe := newProbe()
	cl := probe.client(sc)
	long, short := sc.session(cl, 4*time.Minute), sc.session(cl, 9*time.Second)
	g, lost := mustLock(t, long, "long"), mustLock(t, short, "short")
	var patient, told []<-chan result
	for i := range waiters {
		patient = append(patient, lockAside(t.Context(), long, "long")) // it takes longer than a step
		told = append(told, lockAside(t.Context(), short, "short"))
		if i%10 == 9 {
			sc.awaitLine("long", i+2)
			sc.awaitLine("short", i+2)
		}
	}
	line := sc.line("long")
	if err := sc.KillAll(within(t)); err != nil {
		t.Fatal(err)
	}
	calls, begin := probe.allCalled(), time.Now()
	for _, w := range told {
		wantErr(t, "a waiter whose session ended", await(t, "a waiter is told", w).err, leasehold.ErrExpired)
	}
	wantEnded(t, lost, leasehold.ErrExpired)
	time.Sleep(down - time.Since(begin))
	if n := probe.allCalled() - calls; n > 20*int(down/time.Second) {
		t.Errorf("%d requests in %v of a cluster that is down", n, down)
	} else {
		t.Logf("%d requests in %v of a cluster that is down", n, down)
	}
	if err := sc.RestartAll(within(t)); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, g)
	byKey := make(chan *leasehold.Grant)
	for _, w := range patient {
		go func() {
			if r := <-w; r.err != nil {
				t.Errorf("a waiter that should have gone on: %v", r.err)
				byKey <- nil
			} else {
				byKey <- r.grant
			}
		}()
	}
	for i := range waiters {
		next := await(t, "the next in line", byKey)
		if next == nil {
			return
		}
		if next.Key() != line[i+1] {
			t.Errorf("turn %d is %s, want %s", i, next.Key(), line[i+1])
		}
		mustRelease(t, next)
	}
	if !long.Valid() {
		t.Errorf("the long session ended: %v", long.Err())
	}
}

// Ten thousand locks through one Client. What is renewed are the leases, not the locks; and neither makes goroutines. It
// runs alone, because it counts goroutines.
func TestClient_TenThousandLocksAreAFewLeases(t *testing.T) {
	const n, ttl = 10_000, 15 * time.Second
	sc := stage(t, leaseholdtest.Options{})
	probe := newProbe()
	c := sc.pool(probe.client(sc), ttl)
	first := mustLock(t, c, "first")
	before := runtime.NumGoroutine()
	begin := time.Now()
	grants := lockMany(t, c, n)
	t.Logf("%d locks in %v", n, time.Since(begin))
	leases := make(map[*leasehold.Session]bool)
	for _, g := range grants {
		leases[g.Session()] = true
	}
	renewals, begin := probe.allRenewed(), time.Now()
	time.Sleep(ttl / 3)
	periods := int(time.Since(begin)/(ttl/3)) + 1 // a busy machine may wake us late
	renewed := probe.allRenewed() - renewals
	// Each period every lease is renewed once, a little early, and again if the answer takes long; ten thousand locks would be many
	// more.
	if most := 4 * periods * len(leases); len(leases) > 100 || renewed > most {
		t.Errorf("%d leases, %d renewals in %d periods", len(leases), renewed, periods)
	}
	t.Logf("%d leases, %d renewals in %d periods, %d goroutines before", len(leases), renewed, periods, before)
	// Those of the streams, and of the server in this process, come and go; ten thousand would be many more.
	leaseholdtest.Eventually(t, step, "there are hardly more goroutines than with one lock", func() bool { return runtime.NumGoroutine() <= before+200 })
	for _, g := range append(grants, first) {
		if !g.Valid() {
			t.Fatalf("%s: %v", g.Name(), g.Err())
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), step)
	defer cancel()
	begin = time.Now()
	if err := c.Close(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("closed in %v", time.Since(begin))
	sc.NoKeys(t, sc.prefix)
}
