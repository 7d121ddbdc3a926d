// SPDX-License-Identifier: Apache-2.0

// Command nightly does something under a lock. It is the README's example, and expects etcd at localhost:2379.
package main

import (
	"context"
	"log"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

func main() {
	if err := run(context.Background(), "localhost:2379"); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func run(ctx context.Context, endpoints ...string) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	locks, err := leasehold.New(client, leasehold.Config{TTL: 10 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = locks.Close(ctx) }()

	var register leasehold.Fence // stands for the resource: see fence/ for databases and others
	return locks.Do(ctx, "nightly-report", func(ctx context.Context, g *leasehold.Grant) error {
		log.Printf("%s is ours, token %v, valid for %v", g.Name(), g.Token(), g.Remaining())
		return register.Check("report", g.Token()) // ctx ends when the grant does
	})
}
