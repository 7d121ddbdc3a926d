// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// A place whose key was taken hands over no more, and may stay for long: its work is still stopping, and a key that was overwritten
// with it. Who counted on it is served all the same as soon as the key goes.
func TestNeighbours_NobodyCountsOnAPlaceThatWasTaken(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s, other := r.open(Config{TTL: time.Minute}), r.open(Config{TTL: time.Minute})
		s.retain()
		defer s.letGo()
		g := r.lock(s, "a")
		got := make(chan error, 1)
		var served time.Time
		go func() {
			_, err := other.Lock(r.Context(), "a")
			served = time.Now()
			got <- err
		}()
		time.Sleep(2 * time.Second)
		r.must(second(r.cluster.Put(g.Key(), "mine now", s.Lease())))
		r.ended("the grant", g.Done(), time.Second)
		time.Sleep(time.Second)
		released := time.Now()
		_ = g.Release(r.Context()) // why it was lost
		r.must(r.result("the next", got))
		if d := served.Sub(released); d > time.Second {
			r.Errorf("the next had the lock %v after the key had gone", d)
		}
	})
}
