// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func ExampleCluster_RevokeLease() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		lease, err := cl.Grant(t.Context(), 60)
		check(err)
		_, err = cl.Put(t.Context(), "jobs/nightly", "me", clientv3.WithLease(lease.ID))
		check(err)

		check(c.RevokeLease(t.Context(), lease.ID))
		c.NoKeys(t, "jobs/")
		_, err = cl.KeepAliveOnce(t.Context(), lease.ID)
		fmt.Println("the holder hears:", errors.Is(err, rpctypes.ErrLeaseNotFound))
	})
	// Output: the holder hears: true
}

func ExampleCluster_Overwrite() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		lease, err := cl.Grant(t.Context(), 60)
		check(err)
		_, err = cl.Put(t.Context(), "jobs/nightly", "me", clientv3.WithLease(lease.ID))
		check(err)

		check(c.Overwrite(t.Context(), "jobs/nightly", "somebody else"))
		r, err := cl.Get(t.Context(), "jobs/nightly")
		check(err)
		fmt.Printf("%s, lease %d\n", r.Kvs[0].Value, r.Kvs[0].Lease)
		check(c.Delete(t.Context(), "jobs/nightly"))
		c.NoKeys(t, "jobs/")
	})
	// Output: somebody else, lease 0
}

func ExampleCluster_Compact() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		check(c.Overwrite(t.Context(), "key", "old"))
		check(c.Overwrite(t.Context(), "key", "new"))
		rev, err := c.Compact(t.Context())
		check(err)
		_, err = c.Client(t).Get(t.Context(), "key", clientv3.WithRev(rev-1))
		fmt.Println("the old value is gone:", errors.Is(err, rpctypes.ErrCompacted))
	})
	// Output: the old value is gone: true
}

func ExampleCluster_EnableAuth() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{AuthTokenTTL: 2 * time.Second})
		check(c.EnableAuth(t.Context(), leaseholdtest.User{Name: "worker", Password: "secret", Prefixes: []string{"jobs/"}}))

		cl := c.ClientWith(t, leaseholdtest.ClientOptions{User: "worker", Password: "secret"})
		_, err := cl.Put(t.Context(), "jobs/nightly", "me")
		fmt.Println("its own:", err)
		_, err = cl.Put(t.Context(), "billing/nightly", "me")
		fmt.Println("another's:", errors.Is(err, rpctypes.ErrPermissionDenied))
	})
	// Output:
	// its own: <nil>
	// another's: true
}

func ExampleCluster_RaiseNoSpace() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		check(c.RaiseNoSpace(t.Context()))
		_, err := cl.Put(t.Context(), "key", "value")
		fmt.Println("no space:", errors.Is(err, rpctypes.ErrNoSpace))
		check(c.ClearAlarms(t.Context()))
		_, err = cl.Put(t.Context(), "key", "value")
		fmt.Println("again:", err)
	})
	// Output:
	// no space: true
	// again: <nil>
}

func ExampleCluster_Rollback() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		check(c.Overwrite(t.Context(), "key", "old"))
		saved, err := c.Save(t.Context())
		check(err)
		check(c.Overwrite(t.Context(), "key", "new"))

		cl := c.Client(t) // lives on
		check(c.Rollback(t.Context(), saved))
		r, err := cl.Get(t.Context(), "key")
		check(err)
		fmt.Printf("%s again\n", r.Kvs[0].Value)
	})
	// Output: old again
}

func ExampleCluster_Replace() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		before, err := cl.Get(t.Context(), "key")
		check(err)
		check(c.Replace(t.Context()))
		after, err := cl.Get(t.Context(), "key")
		check(err)
		fmt.Println("another cluster:", before.Header.ClusterId != after.Header.ClusterId)
	})
	// Output: another cluster: true
}
