// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

// header asks through a client that was connected before, which must find the cluster at the same ports.
func header(t *testing.T, cl *leaseholdtest.Client) (cluster uint64, revision int64, keys int64) {
	t.Helper()
	cl.ActiveConnection().ResetConnectBackoff()
	r, err := cl.Get(within(t, long), "k", clientv3.WithPrefix(), clientv3.WithCountOnly())
	must(t, err)
	return r.Header.ClusterId, r.Header.Revision, r.Count
}

func fill(t *testing.T, cl *leaseholdtest.Client, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(t, put(within(t, long), cl, fmt.Sprint("k", i)))
	}
}

func TestRollback_TakesTheSameClusterBackInTime(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
			cl := c.Client(t)
			fill(t, cl, 0, 3)
			saved, err := c.Save(within(t, long))
			must(t, err)
			id, rev, keys := header(t, cl)
			if keys != 3 {
				t.Fatalf("%d keys after the save, want 3", keys)
			}
			for range 2 {
				fill(t, cl, 3, 9)
				must(t, c.Rollback(within(t, long), saved))
				if gotID, gotRev, gotKeys := header(t, cl); gotID != id || gotRev != rev || gotKeys != keys {
					t.Errorf("rolled back to cluster %x, revision %d, %d keys; want %x, %d, %d", gotID, gotRev, gotKeys, id, rev, keys)
				}
			}
		})
	}
}

func TestSave_LeavesMembersDownThatWere(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	must(t, c.Member(2).Stop(within(t, long)))
	_, err := c.Save(within(t, long))
	must(t, err)
	if c.Member(2).Running() || !c.Member(1).Running() {
		t.Errorf("m1 runs: %v, m2 runs: %v; want true and false", c.Member(1).Running(), c.Member(2).Running())
	}
}

func TestRollback_RefusesAnotherClustersData(t *testing.T) {
	a, b := leaseholdtest.Start(t, leaseholdtest.Options{}), leaseholdtest.Start(t, leaseholdtest.Options{})
	saved, err := a.Save(within(t, long))
	must(t, err)
	if err := b.Rollback(within(t, long), saved); err == nil {
		t.Error("a cluster took another one's data")
	}
	must(t, <-putting(t, b.Client(t)))
}

func TestWipe_StartsTheSameClusterAgainWithoutData(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	cl := c.Client(t)
	fill(t, cl, 0, 3)
	id, _, _ := header(t, cl)
	must(t, c.Wipe(within(t, long)))
	if gotID, rev, keys := header(t, cl); gotID != id || rev != 1 || keys != 0 {
		t.Errorf("wiped: cluster %x, revision %d, %d keys; want %x, 1, 0", gotID, rev, keys, id)
	}
}

func TestReplace_PutsAnotherClusterBehindTheSameEndpoints(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	fill(t, cl, 0, 3)
	saved, err := c.Save(within(t, long))
	must(t, err)
	first, _, _ := header(t, cl)
	seen := map[uint64]bool{first: true}
	for range 2 {
		must(t, c.EnableAuth(within(t, long))) // which a new cluster knows nothing of
		must(t, c.Replace(within(t, long)))
		id, rev, keys := header(t, cl)
		if seen[id] || rev != 1 || keys != 0 {
			t.Errorf("replaced by cluster %x, revision %d, %d keys; want a new one, 1, 0", id, rev, keys)
		}
		seen[id] = true
		must(t, c.Overwrite(within(t, long), "key", "value"))
	}
	must(t, c.Rollback(within(t, long), saved))
	if id, _, keys := header(t, cl); id != first || keys != 3 {
		t.Errorf("rolled back to cluster %x, %d keys; want %x, 3", id, keys, first)
	}
}
