// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"errors"
	"strconv"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func TestRaiseNoSpace_RefusesWhatTakesSpaceOnly(t *testing.T) {
	for _, members := range []int{1, 3} {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
		cl := c.Client(t)
		lease, err := cl.Grant(within(t, long), 60)
		must(t, err)
		_, err = cl.Put(within(t, long), "key", "value", clientv3.WithLease(lease.ID))
		must(t, err)

		must(t, c.RaiseNoSpace(within(t, long)))
		if err := <-putting(t, cl); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("a put: %v, want %v", err, rpctypes.ErrNoSpace)
		}
		if _, err := cl.Grant(within(t, long), 60); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Errorf("a new lease: %v, want %v", err, rpctypes.ErrNoSpace)
		}
		_, err = cl.Get(within(t, long), "key")
		must(t, err)
		_, err = cl.KeepAliveOnce(within(t, long), lease.ID)
		must(t, err)
		_, err = cl.Delete(within(t, long), "key")
		must(t, err)
		_, err = cl.Revoke(within(t, long), lease.ID)
		must(t, err)

		must(t, c.ClearAlarms(within(t, long)))
		must(t, <-putting(t, cl))
	}
}

func TestQuotaBytes_FullClusterCanBeEmptiedAgain(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{QuotaBytes: 1 << 20})
	cl := c.Client(t)
	var err error
	// The size that the quota is held against grows only when a member writes its database out, ten times a second.
	filling := within(t, long)
	for i := 0; err == nil; i++ {
		_, err = cl.Put(filling, "fill/"+strconv.Itoa(i), string(make([]byte, 64<<10)))
	}
	if !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("filling the cluster ended with %v, want %v", err, rpctypes.ErrNoSpace)
	}
	_, err = c.DeletePrefix(within(t, long), "fill/")
	must(t, err)
	_, err = c.Compact(within(t, long))
	must(t, err)
	must(t, c.Defragment(within(t, long)))
	must(t, c.ClearAlarms(within(t, long)))
	must(t, <-putting(t, cl))
}
