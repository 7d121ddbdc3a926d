// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"errors"
	"slices"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func TestOperator_TakesAwayBehindTheHoldersBack(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	lease, err := cl.Grant(within(t, long), 60)
	must(t, err)
	for _, key := range []string{"a/1", "a/2", "a/3", "b/1", "b/2"} {
		_, err := cl.Put(within(t, long), key, "held", clientv3.WithLease(lease.ID))
		must(t, err)
	}
	cl.Blackhole(leaseholdtest.Both) // the operator does not come this way

	must(t, c.Delete(within(t, long), "a/1"))
	if err := c.Delete(within(t, long), "a/1"); err == nil {
		t.Error("deleting a key that is gone is no error")
	}
	must(t, c.Overwrite(within(t, long), "a/3", "stolen"))
	n, err := c.DeletePrefix(within(t, long), "b/")
	must(t, err)
	if n != 2 {
		t.Errorf("%d keys were deleted, want 2", n)
	}
	must(t, c.RevokeLease(within(t, long), lease.ID))
	keys, err := c.Keys(within(t, long), "")
	must(t, err)
	// The overwritten key has lost its lease, and so outlives it.
	if want := []string{"a/3"}; !slices.Equal(keys, want) {
		t.Errorf("the keys %q are left, want %q", keys, want)
	}
	if err := c.RevokeLease(within(t, long), lease.ID); !errors.Is(err, rpctypes.ErrLeaseNotFound) {
		t.Errorf("revoking a lease that is gone: %v, want %v", err, rpctypes.ErrLeaseNotFound)
	}
}

func TestCompact_EndsOldWatches(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	must(t, <-putting(t, cl))
	must(t, <-putting(t, cl))
	rev, err := c.Compact(within(t, long))
	must(t, err)
	w := <-cl.Watch(within(t, long), "key", clientv3.WithRev(rev-1))
	if w.CompactRevision != rev || !errors.Is(w.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch from before revision %d: %d, %v", rev, w.CompactRevision, w.Err())
	}
	again, err := c.Compact(within(t, long))
	if err != nil || again != rev {
		t.Errorf("compacting again: %d, %v, want %d", again, err, rev)
	}
}

// The operator must get through where the client's members are cut off or down.
func TestOperator_FindsTheLeader(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	must(t, c.Member(0).Kill(within(t, long)))
	must(t, c.Overwrite(within(t, long), "key", "value"))
	must(t, c.Member(0).Restart(within(t, long)))
	must(t, c.Settle(within(t, long)))
	old := leaderOf(t, c)
	c.Isolate(old)
	leaseholdtest.Eventually(t, long, "another member leads", func() bool { return c.Leader() != nil && c.Leader() != old })
	must(t, c.Delete(within(t, long), "key"))
}
