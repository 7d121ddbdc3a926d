// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

func TestTmp(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	pool, err := leasehold.New(c.Client(t).Client, leasehold.Config{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close(context.Background())
	var runs []chan error
	var cancels []func()
	var els []*leasehold.Elector
	starts := make(chan string, 100)
	for _, id := range []string{"a", "b", "c"} {
		e, err := leasehold.NewElector(pool, leasehold.ElectorConfig{Name: "x", Value: id,
			OnStartedLeading: func(ctx context.Context, l *leasehold.Leadership) {
				starts <- id
				t.Log(id, "started", l.Token(), l.Remaining())
				<-ctx.Done()
				t.Log(id, "ended", context.Cause(ctx))
			},
			OnStoppedLeading: func() { t.Log(id, "stopped") },
			OnNewLeader:      func(l leasehold.Leader) { t.Log(id, "hears", l.Value, l.Token) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		runs = append(runs, done)
		cancels = append(cancels, cancel)
		els = append(els, e)
	}
	<-starts
	time.Sleep(100 * time.Millisecond)
	cs, err := pool.Election("x").Candidates(t.Context())
	t.Log(cs, err)
	for range 3 {
		for i, e := range els {
			if e.IsLeader() {
				t0 := time.Now()
				if i%2 == 0 {
					t.Log(e.StepDown(t.Context()))
				} else {
					cancels[i]()
				}
				t.Log(<-starts, time.Since(t0))
				break
			}
		}
	}
	for i := range runs {
		cancels[i]()
	}
	for i := range runs {
		t0 := time.Now()
		t.Log(<-runs[i], time.Since(t0))
	}
}
