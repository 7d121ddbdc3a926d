// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
)

// crowdAxis measures many goroutines of one client that want one name. The mutexes of one session of the concurrency
// package do not exclude each other, so there each goroutine has a session of its own.
func crowdAxis(ctx context.Context, l *lab) (err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var curves curves
	for _, c := range []struct {
		waiters int
		factor  float64
	}{{10, 10}, {100, 2}, {1000, 2.4}} {
		n, rounds := l.sized(c.waiters), l.rounds
		if n > 100 {
			rounds = min(rounds, 3) // each turn opens as many sessions
		}
		t, err := l.turns(ctx, rounds, pair, func(ctx context.Context, s subject, _ int) (reading, error) {
			return l.crowd(ctx, cluster, s, n)
		})
		if err != nil {
			return fmt.Errorf("%d waiters: %w", n, err)
		}
		curves.add(float64(n), t)
		l.rows(fmt.Sprintf("%d waiters", n), t, rate("hand-overs", report.AtLeast(c.factor, report.Theirs)), p50(no), p99(no),
			metric{"requests", "requests per hand-over", report.Count, no},
			metric{"watched", "watch messages per hand-over", report.Count, no},
			clientCPU("hand-over", no), serverCPU("hand-over", no))
	}
	return l.draw("crowd-throughput", "Hand-over between goroutines of one client", "goroutines that want the name", "hand-overs a second", curves.of("rate", 1))
}

func (l *lab) crowd(ctx context.Context, cluster *etcd.Cluster, s subject, n int) (_ reading, err error) {
	var counted traffic
	clients, err := dialMany(ctx, cluster, 2, &counted)
	defer func() { err = errors.Join(err, hangUp(clients)) }()
	if err != nil {
		return nil, err
	}
	observer := clients[1]
	prefix := newPrefix()
	sessions := n + 1
	if s == ours {
		sessions = 1
	}
	lockers, err := openMany(ctx, s, slices.Repeat(clients[:1], sessions), prefix, leaseTTL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeMany(ctx, lockers)) }()
	c := contention{probe: probe{cluster, &counted}, client: observer, prefix: prefix, gate: lockers[0], workers: lockers[1:]}
	if s == ours {
		c.workers = slices.Repeat(lockers, n)
	}
	return c.handOvers(ctx, l.length/4, l.crowded(n))
}
