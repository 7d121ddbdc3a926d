// SPDX-License-Identifier: Apache-2.0

// Command leaderhttp is a small HTTP service of three replicas, one of which leads: it counts, and the others redirect to it.
//
//	go run ./examples/leaderhttp
//
// It needs nothing else: it runs an etcd of its own, in this process, as it does with the three replicas, each of which
// has its own etcd client and its own port. A client goes on counting through all of them while the replicas are
// restarted one after another, and while the leader is cut off from etcd. Then it ends, or before on Ctrl-C.
//
// What to look at: replica.go, which is the service.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"example.com/leasehold/leaseholdtest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "leaderhttp:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	cluster, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	s := &story{began: time.Now()}
	for i := range s.replicas {
		client, err := cluster.NewClient(leaseholdtest.ClientOptions{})
		if err != nil {
			return err
		}
		s.replicas[i] = &place{name: string(rune('A' + i)), client: client}
		if err := s.replicas[i].start(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.replicas[i].stop()) }()
	}
	return s.tell(ctx)
}
