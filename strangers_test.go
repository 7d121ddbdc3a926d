// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// Somebody puts a key where a slot was, e.g. by restoring keys one by one.
func TestLock_AStrangersKeyInASlotEndsNothing(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		other := r.open(Config{})
		g := r.lock(s, "a")
		r.must(g.Release(r.Context()))
		_, err := r.client.Put(r.Context(), g.Key(), "stray")
		r.must(err)
		b := r.lock(other, "b") // floor passes the stray
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		_, err = s.Lock(ctx, "a")
		t.Logf("lock: %v; s %v; other %v", err, s.Err(), b.Err())
		if b.Err() != nil {
			r.Errorf("a stray key has ended every session of the client")
		}
	})
}

// TryLock takes a stray key, put since the floor, for its own: is it granted?
func TestTryLock_DoesNotTakeAStrangersKeyForItsOwn(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		second := r.another()
		s := r.open(Config{})
		g := r.lock(s, "a")
		r.must(g.Release(r.Context()))
		_, err := second.client.Put(r.Context(), g.Key(), "stray")
		r.must(err)
		g2, err := s.TryLock(r.Context(), "a")
		t.Logf("%v %v", g2, err)
		if err == nil {
			r.Errorf("TryLock was granted on a key that it has not put (lease 0), token %v", g2.Token())
		}
	})
}

// A grant whose key was deleted is kept until its work has stopped: the neighbour behind it, which counts on being told, does not wait
// for that, nor for its next look at the line.
func TestNeighbour_IsToldWhenAKeptGrantWasTaken(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		s.retain()
		defer s.letGo()
		w := r.open(Config{})
		g := r.lock(s, "a")
		got := make(chan error, 1)
		var served time.Time
		go func() {
			_, err := w.Lock(r.Context(), "a")
			served = time.Now()
			got <- err
		}()
		time.Sleep(3 * time.Second)
		start := time.Now()
		_, err := r.client.Delete(r.Context(), g.Key())
		r.must(err)
		r.ended("g", g.Done(), 5*time.Second)
		r.must(r.result("the neighbour", got))
		if d := served.Sub(start); d > time.Second {
			r.Errorf("the neighbour had the lock %v after the key had gone", d)
		}
	})
}
