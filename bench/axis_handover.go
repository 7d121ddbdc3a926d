// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
)

// handOverAxis measures a name that goes from client to client, each with an etcd client of its own, as fast as it can.
func handOverAxis(ctx context.Context, l *lab) (err error) {
	var curves curves
	for _, c := range []struct {
		clients int
		busy    bool // somebody writes elsewhere
		factor  float64
	}{{2, false, 30}, {10, false, 8}, {2, true, 30}, {10, true, 8}, {100, false, 1.3}, {1000, false, 1.4}} {
		n := max(2, l.sized(c.clients))
		name := fmt.Sprintf("%d clients", n)
		if c.busy {
			name += ", 500 writes/s elsewhere"
		}
		t, err := l.handOverBetween(ctx, n, c.busy)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tail := no
		if c.clients <= 10 {
			tail = report.AtMost(0.005, report.Absolute)
		}
		l.rows(name, t, rate("hand-overs", report.AtLeast(c.factor, report.Theirs)), p50(no), p99(tail),
			metric{"requests", "requests per hand-over", report.Count, no},
			metric{"watched", "watch messages per hand-over", report.Count, no},
			clientCPU("hand-over", no), serverCPU("hand-over", no))
		if c.busy {
			l.rows(name, t, metric{"written", "writes elsewhere", report.PerSecond, no})
		} else {
			curves.add(float64(n), t)
		}
	}
	return errors.Join(
		l.draw("handover-throughput", "Hand-over between clients: throughput", "clients that want the name", "hand-overs a second", curves.of("rate", 1)),
		l.draw("handover-p99", "Hand-over between clients: 99th percentile", "clients that want the name", "ms", curves.of("p99", 1e3)),
	)
}

// handOverBetween measures with so many clients, which are opened once and used by all subjects in turn.
func (l *lab) handOverBetween(ctx context.Context, n int, busy bool) (_ taken, err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var counted traffic
	clients, err := dialMany(ctx, cluster, n, &counted)
	defer func() { err = errors.Join(err, hangUp(clients)) }()
	if err != nil {
		return nil, err
	}
	observer, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, observer.Close()) }()
	var written atomic.Int64
	if busy {
		stop := background(ctx, func(ctx context.Context) error { return writeElsewhere(ctx, observer, 500, &written) })
		defer func() { err = errors.Join(err, stop()) }()
	}
	p := probe{cluster, &counted}
	length := l.crowded(n)
	rounds, subjects := l.rounds, all
	if n > 100 && !l.full {
		rounds, subjects = min(rounds, 2), pair // each turn takes many seconds to open, to line up and to disperse
	}
	return l.turns(ctx, rounds, subjects, func(ctx context.Context, s subject, _ int) (r reading, err error) {
		before, begin := written.Load(), time.Now()
		defer func() {
			if r != nil {
				r["written"] = float64(written.Load()-before) / time.Since(begin).Seconds()
			}
		}()
		if s == floor {
			return ring(ctx, p, clients, l.length/4, length)
		}
		prefix := newPrefix()
		lockers, err := openMany(ctx, s, append(clients, observer), prefix, leaseTTL)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeMany(ctx, lockers)) }()
		c := contention{probe: p, client: observer, prefix: prefix, gate: lockers[n], workers: lockers[:n]}
		return c.handOvers(ctx, l.length/4, length)
	})
}

// crowded is how long a name is measured that many want: in a long line some hand-overs take long.
func (l *lab) crowded(n int) time.Duration {
	if n >= 100 {
		return 3 * l.length
	}
	return l.length
}

// dialMany opens etcd clients side by side, which count together. Those that were opened are returned also on failure.
func dialMany(ctx context.Context, cluster *etcd.Cluster, n int, counted *traffic) ([]*clientv3.Client, error) {
	clients := make([]*clientv3.Client, n)
	err := sideBySide(n, 64, func(i int) (err error) {
		clients[i], err = dial(ctx, cluster.Endpoints, counted.options()...)
		return err
	})
	return clients, err
}

func hangUp(clients []*clientv3.Client) error {
	return sideBySide(len(clients), 64, func(i int) error {
		if clients[i] == nil {
			return nil
		}
		return clients[i].Close()
	})
}

// background runs f until stop is called, which returns f's error.
func background(ctx context.Context, f func(ctx context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// writeElsewhere writes so many keys a second, outside of all that is locked, until ctx ends.
func writeElsewhere(ctx context.Context, client *clientv3.Client, perSecond int, written *atomic.Int64) error {
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	const writers = 32 // so that a slow write does not hold up the next
	return sideBySide(writers, writers, func(w int) error {
		for i := 0; ; i++ {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return nil
			}
			if _, err := client.Put(ctx, fmt.Sprintf("elsewhere/%d-%d", w, i%1000), "value"); err != nil && ctx.Err() == nil {
				return fmt.Errorf("write elsewhere: %w", err)
			}
			written.Add(1)
		}
	})
}
