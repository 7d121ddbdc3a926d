// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// A waiter joins behind a holder of its own process, whose slot is used again before the waiter aims.
func TestNeighbour_ALaterUseOfTheSlotIsNotFollowed(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		first := r.lock(s, "a")
		s.load.Add(1)
		p := s.newPlace("a", "p")
		a, err := p.join(r.Context())
		r.must(err)
		r.must(first.Release(r.Context()))
		later := make(chan error, 1)
		go func() {
			g, err := s.Lock(r.Context(), "a")
			if err == nil {
				err = g.Release(r.Context())
			}
			later <- err
		}()
		r.quiet()
		start := time.Now()
		g, err := p.conclude(p.wait(r.Context(), a))
		r.must(err)
		t.Logf("waited %v; keys %v", time.Since(start), a.keys)
		if w := time.Since(start); w > 100*time.Millisecond {
			r.Errorf("waited %v for a name that was free", w)
		}
		r.must(g.Release(r.Context()))
		<-later
	})
}

// The key just ahead is given up and used again, behind, before the waiter's watch began.
func TestWait_ALaterUseOfTheKeyAheadIsNotWaitedFor(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		second, third := r.another(), r.another()
		s1, s2, s3 := r.open(Config{}), second.open(Config{}), third.open(Config{})
		x := r.lock(s1, "a")
		ctx, cancel := context.WithCancel(r.Context())
		gaveUp := make(chan struct{})
		go func() { _, _ = s2.Lock(ctx, "a"); close(gaveUp) }()
		r.quiet()
		third.delay(100*time.Millisecond, 100*time.Millisecond)
		got := make(chan *Grant, 1)
		go func() {
			g, err := s3.Lock(r.Context(), "a")
			if err != nil {
				t.Error(err)
			}
			got <- g
		}()
		r.wait("three keys", func() bool { return len(r.cluster.Keys("")) == 3 })
		cancel()
		<-gaveUp
		r.wait("two keys", func() bool { return len(r.cluster.Keys("")) == 2 })
		go func() { _, _ = s2.Lock(r.Context(), "a") }()
		r.quiet()
		for _, kv := range r.cluster.Keys("") {
			t.Logf("%s created %d", kv.Key, kv.CreateRevision)
		}
		time.Sleep(5 * time.Second)
		start := time.Now()
		r.must(x.Release(r.Context()))
		<-got
		t.Logf("waited %v", time.Since(start))
		if w := time.Since(start); w > 2*time.Second {
			r.Errorf("waited %v for a name that was free", w)
		}
	})
}

// Acquires that are given up in flight.
func TestSlots_OfCancelledAcquiresAreFreedAgain(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(time.Second)
		r.delay(5*time.Millisecond, 5*time.Millisecond)
		for range 200 {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Millisecond)
			_, _ = s.Lock(ctx, "a")
			cancel()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		s.slots.mu.Lock()
		defer s.slots.mu.Unlock()
		for dir, line := range s.slots.lines {
			r.Errorf("%d slots of %s are taken though nobody holds or waits", len(line), dir)
		}
	})
}

// A key that was ever used costs every later look at its line, until the store is compacted.
func TestSlots_NamesThatAreNotContestedUseOneKeyEach(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		keys := make(map[string]bool)
		for i := range 50 {
			var held []*Grant
			for j := range 5 {
				held = append(held, r.lock(s, string(rune('a'+(i+j)%5))))
			}
			for j := range held {
				g := held[(i+j)%5]
				keys[g.Key()] = true
				r.must(g.Release(r.Context()))
			}
		}
		if len(keys) != 5 {
			r.Errorf("five names, locked by turns, used %d keys: %v", len(keys), keys)
		}
	})
}
