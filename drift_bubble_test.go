// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"example.com/leasehold/internal/etcdfake"
)

// A handOver is what happens when a holder is cut off for good and somebody else waits.
type handOver struct {
	stopped time.Time // the holder's last instant of belief, in true time
	freed   time.Time // the grantor let the name go
	granted time.Time // the successor's Lock returned
}

// cutOffHolder cuts a holder off at some instant, with a grantor whose clock runs at a rate. The holder's clock is the bubble's:
// only the ratio of the two counts.
func cutOffHolder(t *testing.T, cfg Config, rate float64, at time.Duration) (h handOver) {
	bubble(t, etcdfake.Options{Members: 3, Seed: uint64(at)}, func(r *rig) {
		r.cluster.Member(0).SetClockRate(rate)
		holder := r.lock(r.open(cfg), "a")
		other := r.another()
		successor := other.open(cfg)
		r.cluster.OnChange(func(ch etcdfake.Change) {
			for _, ev := range ch.Events {
				if ev.Type == mvccpb.Event_DELETE && string(ev.Kv.Key) == holder.Key() {
					h.freed = ch.At
				}
			}
		})
		got := make(chan struct{})
		go func() {
			defer close(got)
			if g, err := successor.Lock(r.Context(), "a"); err != nil || !g.Valid() || g.Token() <= holder.Token() {
				r.Errorf("successor: %v", err)
			}
			h.granted = time.Now()
		}()
		time.Sleep(at)
		r.quiet()
		r.hold(true, true)
		r.ended("the holder", holder.Done(), time.Minute)
		h.stopped = time.Now()
		<-got
	})
	return h
}

// The promise itself, in true time, with both clocks as wrong as the bound allows: the holder has stopped before the grantor lets
// the name go, wherever in the term the cut falls. Rates of one part in a thousand and of one in twenty.
func TestDrift_AtTheBoundTheHolderStopsBeforeTheNameIsFreed(t *testing.T) {
	for _, rho := range []float64{defaultDriftBound, 0.05} {
		for name, rate := range map[string]float64{"fast": (1 + rho) / (1 - rho), "slow": (1 - rho) / (1 + rho), "right": 1} {
			t.Run(fmt.Sprintf("%v, grantor %s", rho, name), func(t *testing.T) {
				least := time.Hour
				for i := range 12 {
					cfg := Config{TTL: 6 * time.Second, DriftBound: rho, Margin: time.Millisecond}
					h := cutOffHolder(t, cfg, rate, 13*time.Second+time.Duration(i)*171*time.Millisecond)
					if d := h.freed.Sub(h.stopped); d < cfg.Margin {
						t.Errorf("cut %d: the holder stopped %v before the name was freed", i, d)
					}
					if h.granted.Before(h.freed) {
						t.Errorf("cut %d: the successor was granted the name %v before it was free", i, h.freed.Sub(h.granted))
					}
					least = min(least, h.freed.Sub(h.stopped))
				}
				t.Logf("the holder stopped at least %v before the name was freed", least)
			})
		}
	}
}

// And it is the bound that does it: a grantor that is twice as fast frees the name under a holder that believes. This shows
// that the test above can see.
func TestDrift_BeyondTheBoundIsSeenToFail(t *testing.T) {
	seen := 0
	for i := range 5 {
		cfg := Config{TTL: 6 * time.Second}
		if h := cutOffHolder(t, cfg, 2, 13*time.Second+time.Duration(i)*171*time.Millisecond); h.granted.Before(h.stopped) {
			seen++
		}
	}
	if seen == 0 {
		t.Error("a grantor twice as fast as the holder did no harm: these tests cannot see an overlap")
	}
}
