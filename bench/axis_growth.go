// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold/bench/internal/chart"
	"example.com/leasehold/bench/internal/etcd"
)

// growthAxis measures how the cost of one lock grows with the distance to etcd, with the members, and with the disk.
func growthAxis(ctx context.Context, l *lab) error {
	for _, members := range []int{1, 3} {
		var curves curves
		for _, trip := range []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond} {
			name := fmt.Sprintf("%s, %v added to the round trip", plural(members, "member"), trip)
			t, err := l.grown(ctx, name, func(o *etcd.Options) { o.Members, o.RTT = members, trip })
			if err != nil {
				return err
			}
			curves.add(trip.Seconds()*1e3, t)
		}
		err := l.drawn(fmt.Sprintf("growth-%d", members), chart.Chart{
			Title:  fmt.Sprintf("Lock and unlock against the distance to etcd, %s: median", plural(members, "member")),
			X:      "ms added to the round trip",
			Y:      "ms",
			Linear: true,
			Curves: curves.of("p50", 1e3),
		})
		if err != nil {
			return err
		}
	}
	with := map[bool]string{true: "with fsync", false: "without fsync"}[!l.fsync]
	_, err := l.grown(ctx, fmt.Sprintf("%s, %s", plural(l.members, "member"), with), func(o *etcd.Options) { o.Fsync = !l.fsync })
	return err
}

// grown measures one goroutine that locks and unlocks, on a cluster of its own.
func (l *lab) grown(ctx context.Context, name string, change func(*etcd.Options)) (_ taken, err error) {
	cluster, err := l.cluster(ctx, change)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	t, err := l.turns(ctx, l.rounds, all, func(ctx context.Context, s subject, _ int) (reading, error) {
		return l.lockAndUnlock(ctx, cluster, s, 1)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	l.rows(name, t, p50(no), p99(no), clientCPU("lock", no), serverCPU("lock", no))
	return t, nil
}
