// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func TestPartition(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	leader, err := c.WaitLeader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	c.Isolate(leader)
	if err := leaseholdtestWait(t, func() bool { l := c.Leader(); return l != nil && l != leader }); err != nil {
		t.Fatal(err)
	}
	t.Log("isolated", time.Since(start))
	start = time.Now()
	c.Rejoin(leader)
	if err := leaseholdtestWait(t, func() bool { return c.Agree() }); err != nil {
		t.Fatal(err)
	}
	t.Log("rejoined", time.Since(start))
	start = time.Now()
	if err := c.LoseQuorum(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Log("lost", time.Since(start))
	start = time.Now()
	if _, err := c.RegainQuorum(within(t)); err != nil {
		t.Fatal(err)
	}
	t.Log("regained", time.Since(start))
	start = time.Now()
	leader, _ = c.WaitLeader(within(t))
	next := c.Member((leader.Index() + 1) % 3)
	if err := c.MoveLeader(within(t), next); err != nil {
		t.Fatal(err)
	}
	t.Log("moved", time.Since(start))
	start = time.Now()
	next.Pause()
	if err := leaseholdtestWait(t, func() bool { l := c.Leader(); return l != nil && l != next }); err != nil {
		t.Fatal(err)
	}
	t.Log("paused", time.Since(start))
	start = time.Now()
	next.Resume()
	if err := leaseholdtestWait(t, func() bool { return c.Agree() }); err != nil {
		t.Fatal(err)
	}
	t.Log("resumed", time.Since(start))
}

func TestForwardedRenewal(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	leader, err := c.WaitLeader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	follower := c.Member((leader.Index() + 1) % 3)
	cl := c.ClientWith(t, leaseholdtest.ClientOptions{Members: []*leaseholdtest.Member{follower}})
	lease, err := cl.Grant(within(t), 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cl.KeepAliveOnce(within(t), lease.ID); err != nil {
		t.Fatal(err)
	}
	c.CutOneWay(follower, leader)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = cl.KeepAliveOnce(ctx, lease.ID)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_ = clientv3.NoLease
}
