// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// The line is served in the order of the keys' create revisions, across sessions and machines.
func TestLock_TheLineIsServedInOrder(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, CommitLatency: time.Millisecond}, func(r *rig) {
		holder := r.lock(r.open(Config{}), "a")
		type turn struct {
			who   int
			token Token
		}
		var turns []turn
		done := make(chan struct{})
		const waiters = 9
		for i := range waiters {
			m := r.another()
			m.delay(time.Duration(1+i%4)*time.Millisecond, time.Duration(1+i%3)*time.Millisecond)
			s := m.open(Config{})
			go func() {
				g := r.lock(s, "a")
				turns = append(turns, turn{i, g.Token()}) // one holder at a time
				r.must(g.Release(r.Context()))
				done <- struct{}{}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		r.must(holder.Release(r.Context()))
		for range waiters {
			<-done
		}
		last := holder.Token()
		for i, turn := range turns {
			if turn.who != i || turn.token <= last {
				r.Fatalf("turns %v", turns)
			}
			last = turn.token
		}
		if keys := r.cluster.Keys(""); len(keys) != 0 {
			r.Errorf("keys left: %v", keys)
		}
	})
}

// Scenario 17: two goroutines of one session exclude each other, each acquisition with a token of its own.
func TestLock_GoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		var tokens []Token
		held := 0
		done := make(chan struct{})
		for range 20 {
			go func() {
				g := r.lock(s, "a")
				if held++; held > 1 {
					r.Error("two holders")
				}
				tokens = append(tokens, g.Token())
				time.Sleep(time.Millisecond)
				held--
				r.must(g.Release(r.Context()))
				done <- struct{}{}
			}()
		}
		for range 20 {
			<-done
		}
		if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != 20 {
			r.Errorf("tokens %v", fmt.Sprint(tokens))
		}
	})
}
