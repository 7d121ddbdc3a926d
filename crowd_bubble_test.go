// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// Scenario 18: three machines, three sessions, a few names, hundreds of goroutines that lock, try, give up and release at random, over a
// network that loses and delays. Never two holders of a name, tokens strictly rise, and nothing is left.
func TestCrowd_NeverTwoHoldersAndNothingLeft(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3, Seed: seed, CommitLatency: time.Millisecond}, func(r *rig) {
				crowd(r, rand.New(rand.NewPCG(seed, 0)), 60, 5)
			})
		})
	}
}

func crowd(r *rig, rng *rand.Rand, goroutines, names int) {
	var mu sync.Mutex // of rng and what follows
	holders := make([]int, names)
	last := make([]Token, names)
	counts := make(map[string]int)
	random := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return rng.IntN(n)
	}
	r.cluster.Hook(etcdfake.On("KV/Txn", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		switch random(100) {
		case 0:
			return etcdfake.LoseAnswer()(ctx, call, next)
		case 1:
			return etcdfake.LoseRequest()(ctx, call, next)
		case 2, 3:
			return etcdfake.Delay(time.Duration(random(1500))*time.Millisecond)(ctx, call, next)
		case 4, 5:
			return etcdfake.DelayAnswer(time.Duration(random(1500))*time.Millisecond)(ctx, call, next)
		}
		return next(ctx)
	}))
	var wg sync.WaitGroup
	var sessions []*Session
	for range 3 {
		m := r.another()
		m.delay(time.Millisecond, 2*time.Millisecond)
		s := m.open(Config{})
		sessions = append(sessions, s)
		for range goroutines / 3 {
			wg.Go(func() {
				for range 6 {
					time.Sleep(time.Duration(random(200)) * time.Millisecond)
					n := random(names)
					ctx, cancel := context.WithTimeout(r.Context(), time.Duration(1+random(3000))*time.Millisecond)
					how := "Lock"
					lock := s.Lock
					if random(3) == 0 {
						how, lock = "TryLock", s.TryLock
					}
					g, err := lock(ctx, fmt.Sprint("n", n))
					cancel()
					mu.Lock()
					switch {
					case err == nil:
						counts[how]++
						if holders[n]++; holders[n] > 1 && g.Valid() {
							r.Errorf("two holders of n%d", n)
						}
						if g.Token() <= last[n] {
							r.Errorf("n%d: token %v after %v", n, g.Token(), last[n])
						}
						last[n] = max(last[n], g.Token())
					case errors.Is(err, context.DeadlineExceeded):
						counts["gave up"]++
					case errors.Is(err, ErrLocked):
						counts["locked"]++
					default:
						r.Errorf("%s: %v", how, err)
					}
					mu.Unlock()
					if err != nil {
						continue
					}
					time.Sleep(time.Duration(random(30)) * time.Millisecond)
					mu.Lock()
					holders[n]--
					mu.Unlock()
					if err := g.Release(r.within(time.Minute)); err != nil {
						r.Errorf("Release: %v", err)
					}
				}
			})
		}
	}
	wg.Wait()
	r.Logf("%v", counts)
	if counts["Lock"] < 20 || counts["gave up"] == 0 || counts["locked"] == 0 {
		r.Errorf("not much of a crowd: %v", counts)
	}
	time.Sleep(30 * time.Second) // two terms: what was given up is found
	if keys := r.cluster.Keys(""); len(keys) != 0 {
		r.Errorf("%d keys left, the first %v", len(keys), keys[0])
	}
	for _, s := range sessions {
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
		if n := s.load.Load(); n != 0 {
			r.Errorf("%d places are still counted", n)
		}
	}
}
