// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// etcd starts an embedded cluster for an example, and returns a client of it and what ends both.
func etcd() (*clientv3.Client, func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cluster, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	client, err := cluster.NewDirectClient(leaseholdtest.ClientOptions{})
	if err != nil {
		log.Fatal(err)
	}
	return client, func() {
		_ = client.Close()
		_ = cluster.Close()
	}
}

// A lock with a fencing token: the register refuses whoever comes too late.
func Example() {
	client, stop := etcd() // yours: clientv3.New(...)
	defer stop()
	ctx := context.Background()

	var register leasehold.Fence // stands for the resource: see fence/ for databases and others

	locks, err := leasehold.New(client, leasehold.Config{TTL: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close(ctx) }()

	err = locks.Do(ctx, "nightly-report", func(ctx context.Context, g *leasehold.Grant) error {
		return register.Check("report", g.Token()) // ctx ends when the grant does
	})
	fmt.Println("first:", err)

	var latest leasehold.Token
	err = locks.Do(ctx, "nightly-report", func(ctx context.Context, g *leasehold.Grant) error {
		latest = g.Token()
		return register.Check("report", g.Token())
	})
	fmt.Println("second:", err)

	err = register.Check("report", latest-1) // the first one again, after a pause that nobody noticed
	fmt.Println("late:", errors.Is(err, leasehold.ErrStaleToken))

	// Output:
	// first: <nil>
	// second: <nil>
	// late: true
}

// TryLock says who holds the name.
func ExampleClient_TryLock() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	locks, err := leasehold.New(client, leasehold.Config{Holder: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close(ctx) }()

	grant, err := locks.TryLock(ctx, "shard-7")
	if err != nil {
		log.Fatal(err)
	}
	_, err = locks.TryLock(ctx, "shard-7")
	if locked, ok := errors.AsType[*leasehold.LockedError](err); ok {
		fmt.Println("held by", locked.Holder, "with that token:", locked.Token == grant.Token())
	}
	// Output: held by worker-1 with that token: true
}

// A transaction of one's own that runs only while this very grant exists.
func ExampleGrant_Cmp() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()

	grant, err := session.Lock(ctx, "counter")
	if err != nil {
		log.Fatal(err)
	}
	write := func(value string) bool {
		resp, err := client.Txn(ctx).If(grant.Cmp()).Then(clientv3.OpPut("counter", value)).Commit()
		return err == nil && resp.Succeeded
	}
	fmt.Println("held:", write("1"))
	if err := grant.Release(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", write("2"))
	// Output:
	// held: true
	// released: false
}
