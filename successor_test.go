// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// A takeOver is one run: what was done to the old holder, and how far its belief ended before its successor was told.
type takeOver struct {
	fault    string
	distance time.Duration
}

// The central promise, measured on one monotonic clock: whatever was done to the old holder's network, its belief ended
// before its successor's Lock returned. 200 runs at the smallest term, each with its own delays and its own cut.
func TestBelief_EndsBeforeTheSuccessorsLockReturns(t *testing.T) {
	t.Parallel()
	const workers, each = 25, 8
	sc := solo.scene(t)
	seed := leaseholdtest.Seed(t)
	successors := sc.pool(sc.Client(t), 15*time.Second)
	runs := make(chan takeOver, workers*each)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range each {
				runTakeOver(t, sc, rng, successors, fmt.Sprintf("%d-%d", w, i), runs)
			}
		})
	}
	wg.Wait()
	close(runs)
	var all []time.Duration
	shortest := make(map[string]time.Duration)
	for r := range runs {
		all = append(all, r.distance)
		if d, ok := shortest[r.fault]; !ok || r.distance < d {
			shortest[r.fault] = r.distance
		}
	}
	if len(all) != workers*each {
		t.Fatalf("%d runs, want %d", len(all), workers*each)
	}
	slices.Sort(all)
	t.Logf("belief ended before the successor's Lock returned by: least %v, median %v, most %v, in %d runs",
		all[0], all[len(all)/2], all[len(all)-1], len(all))
	for _, c := range cuts {
		t.Logf("%16s: at least %v", c.name, shortest[c.name])
	}
}

// cuts are ways to lose a holder. Those that hold are ended after the take-over, so that what was held arrives.
var cuts = []struct {
	name string
	cut  func(*leaseholdtest.Link)
}{
	{"blackhole", func(l *leaseholdtest.Link) { l.Blackhole(leaseholdtest.Both) }},
	{"blackhole up", func(l *leaseholdtest.Link) { l.Blackhole(leaseholdtest.Up) }},
	{"blackhole down", func(l *leaseholdtest.Link) { l.Blackhole(leaseholdtest.Down) }},
	{"hold", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Both) }},
	{"hold up", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Up) }},
	{"hold down", func(l *leaseholdtest.Link) { l.Hold(leaseholdtest.Down) }},
	{"refuse", (*leaseholdtest.Link).Refuse},
	{"delay up", func(l *leaseholdtest.Link) { l.Delay(leaseholdtest.Up, 2*time.Second, 0) }},
	{"delay down", func(l *leaseholdtest.Link) { l.Delay(leaseholdtest.Down, 2*time.Second, 0) }},
}

func runTakeOver(t *testing.T, sc *scene, rng *rand.Rand, successors *leasehold.Client, name string, runs chan<- takeOver) {
	cl, err := sc.NewClient(leaseholdtest.ClientOptions{})
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = cl.Close() }()
	old, lockedAt, err := lockAtLast(within(t), cl, sc.config(time.Second), name)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = old.Session().Close(ended(t)) }() // it is lost
	defer cl.Heal()
	link, cut := cl.Link(sc.Member(0)), cuts[rng.IntN(len(cuts))]
	// Delays that leave time for a renewal, then the cut at any point of the renewals' rhythm.
	link.Delay(leaseholdtest.Up, time.Duration(rng.Int64N(int64(150*time.Millisecond))), 50*time.Millisecond)
	link.Delay(leaseholdtest.Down, time.Duration(rng.Int64N(int64(250*time.Millisecond))), 100*time.Millisecond)
	waiting := lockAside(within(t), successors, name)
	time.Sleep(time.Duration(rng.Int64N(int64(time.Second))))
	cut.cut(link)

	last := lockedAt // the latest instant at which the old grant was known to be valid
	for {
		until, valid := believed(old)
		if valid && until.After(last) {
			last = until
		}
		select {
		case r := <-waiting:
			if r.err != nil {
				t.Errorf("%s after %q: the successor: %v", name, cut.name, r.err)
				return
			}
			if old.Valid() {
				t.Errorf("%s after %q: the old grant is valid although the successor has the lock", name, cut.name)
			}
			if !last.Before(r.at) {
				t.Errorf("%s after %q: the old grant was to be valid until %v after the successor's Lock returned", name, cut.name, last.Sub(r.at))
			}
			if r.grant.Token() <= old.Token() {
				t.Errorf("%s after %q: token %v after %v", name, cut.name, r.grant.Token(), old.Token())
			}
			runs <- takeOver{cut.name, r.at.Sub(last)}
			cl.Heal() // what was held arrives now
			if err := r.grant.Release(within(t)); err != nil {
				t.Errorf("%s after %q: release: %v", name, cut.name, err)
			}
			if old.Valid() {
				t.Errorf("%s after %q: the old grant is valid again", name, cut.name)
			}
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// lockAtLast locks a free name on a new session, and returns an instant before that at which the session was valid. On a machine that stands still for most of a second, that session
// may be lost before it has the lock: then on another one.
func lockAtLast(ctx context.Context, cl *leaseholdtest.Client, cfg leasehold.Config, name string) (g *leasehold.Grant, at time.Time, err error) {
	for {
		s, err := leasehold.NewSession(ctx, cl.Client, cfg)
		if err != nil {
			return nil, time.Time{}, err
		}
		at := time.Now()
		g, err := s.Lock(ctx, name)
		if err == nil {
			return g, at, nil
		}
		if err := errors.Join(s.Close(ctx), ctx.Err()); err != nil || !errors.Is(s.Err(), leasehold.ErrExpired) {
			return nil, time.Time{}, errors.Join(err, s.Err())
		}
	}
}
