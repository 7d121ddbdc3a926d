// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"example.com/leasehold/leaseholdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds a step of a test, generously.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestStart_GrantsOneSecondLeases(t *testing.T) {
	for _, members := range []int{1, 3, 5} {
		t.Run("", func(t *testing.T) {
			start := time.Now()
			c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
			t.Log("started", time.Since(start))
			cl := c.Client(t)
			lease, err := cl.Grant(within(t), 1)
			if err != nil {
				t.Fatal(err)
			}
			if lease.TTL != 1 {
				t.Errorf("TTL %d", lease.TTL)
			}
			if _, err := cl.Put(within(t), "k", "v", clientv3.WithLease(lease.ID)); err != nil {
				t.Fatal(err)
			}
			start = time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			t.Log("closed", time.Since(start))
		})
	}
}

func TestMember_StopKillRestart(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run("", func(t *testing.T) {
			c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
			cl := c.Client(t)
			direct := c.DirectClient(t)
			if _, err := cl.Put(within(t), "k", "v"); err != nil {
				t.Fatal(err)
			}
			w := direct.Watch(within(t), "k")
			_ = w
			for i := range 4 {
				leader, err := c.WaitLeader(within(t))
				if err != nil {
					t.Fatal(err)
				}
				start := time.Now()
				if i%2 == 0 {
					err = leader.Kill(within(t))
				} else {
					err = leader.Stop(within(t))
				}
				if err != nil {
					t.Fatal(err)
				}
				t.Log("down", time.Since(start))
				start = time.Now()
				if members > 1 {
					n, err := c.WaitLeader(within(t))
					t.Log("next leader", n, err, time.Since(start))
				}
				if err := leader.Restart(within(t)); err != nil {
					t.Fatal(err)
				}
				t.Log("up", time.Since(start))
				r, err := cl.Get(within(t), "k")
				if err != nil || len(r.Kvs) != 1 {
					t.Fatal(r, err)
				}
				t.Log("get", time.Since(start))
			}
		})
	}
}

func leaseholdtestWait(t *testing.T, cond func() bool) error {
	t.Helper()
	ctx := within(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
