// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
)

// leaseTTL is the term of leases that are not to matter: nothing is renewed while something short is measured.
const leaseTTL = time.Minute

// lockAxis measures uncontended locks under growing load: from one goroutine, where latency counts, to many.
func lockAxis(ctx context.Context, l *lab) (err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var curves curves
	for _, workers := range []int{1, 4, 16, 64, 256} {
		workers = l.sized(workers)
		t, err := l.turns(ctx, l.rounds, all, func(ctx context.Context, s subject, _ int) (reading, error) {
			return l.lockAndUnlock(ctx, cluster, s, workers)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", plural(workers, "goroutine"), err)
		}
		curves.add(float64(workers), t)
		l.rows(plural(workers, "goroutine"), t, lockMetrics(workers)...)
	}
	return errors.Join(
		l.draw("lock-throughput", "Lock and unlock, distinct names: throughput", "goroutines", "locks a second", curves.of("rate", 1)),
		l.draw("lock-median", "Lock and unlock, distinct names: median latency", "goroutines", "ms", curves.of("p50", 1e3)),
		l.draw("lock-p99", "Lock and unlock, distinct names: 99th percentile", "goroutines", "ms", curves.of("p99", 1e3)),
		l.draw("lock-client-cpu", "Lock and unlock, distinct names: processor time of the client", "goroutines", "µs a lock", curves.of("client", 1e6)),
		l.draw("lock-server-cpu", "Lock and unlock, distinct names: processor time of etcd", "goroutines", "µs a lock", curves.of("server", 1e6)),
	)
}

// lockMetrics are the metrics of a load, with the bars that are set for it.
func lockMetrics(workers int) []metric {
	var factor, tail, half report.Bar
	switch workers {
	case 1:
		return []metric{
			p50(report.AtMost(1, report.Theirs)),
			{"p50", "median", report.Seconds, report.AtMost(1.05, report.Floor)},
			p99(no), rate("locks", no), clientCPU("lock", no), serverCPU("lock", no),
		}
	case 64, 256:
		factor = report.AtLeast(map[int]float64{64: 2.4, 256: 3}[workers], report.Theirs)
		tail, half = report.AtMost(1, report.Theirs), report.AtMost(0.5, report.Theirs)
	}
	return []metric{rate("locks", factor), p50(no), p99(tail), clientCPU("lock", half), serverCPU("lock", half)}
}

// lockAndUnlock measures pairs of a lock and its unlock by so many goroutines of one client, each on a name of its own.
func (l *lab) lockAndUnlock(ctx context.Context, cluster *etcd.Cluster, s subject, workers int) (_ reading, err error) {
	client, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	k, err := s.open(ctx, client, newPrefix(), leaseTTL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.close(context.WithoutCancel(ctx))) }()
	names := make([]string, workers)
	for i := range names {
		names[i] = fmt.Sprintf("name-%d", i)
	}
	runtime.GC()
	return probe{cluster: cluster}.closedLoop(ctx, workers, l.length/4, l.length, func(ctx context.Context, w int) error {
		unlock, err := k.lock(ctx, names[w])
		if err != nil {
			return err
		}
		return unlock(ctx)
	})
}
