// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	const names, underWay = 120, 4
	t, err := l.turns(ctx, l.rounds, []subject{floor}, func(ctx context.Context, _ subject, _ int) (reading, error) {
		return l.lockByHand(ctx, cluster, l.sized(names), underWay)
	})
	if err != nil {
		return fmt.Errorf("locks in shared transactions: %w", err)
	}
	l.rows(fmt.Sprintf("by hand, %d names in a transaction, %d under way", names, underWay), t, rate("locks", no), clientCPU("lock", no), serverCPU("lock", no))
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

// lockByHand measures what etcd itself does with the writes of locks in shared transactions, as fast as it takes them: the floor for
// whoever shares transactions, and the ceiling for the throughput of locks.
func (l *lab) lockByHand(ctx context.Context, cluster *etcd.Cluster, names, underWay int) (_ reading, err error) {
	client, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	lease, err := client.Grant(ctx, int64(leaseTTL/time.Second))
	if err != nil {
		return nil, err
	}
	defer func() {
		_, rerr := client.Revoke(context.WithoutCancel(ctx), lease.ID)
		err = errors.Join(err, rerr)
	}()
	locks, unlocks := make([][]clientv3.Op, underWay), make([][]clientv3.Op, underWay)
	prefix := newPrefix()
	for w := range underWay {
		for i := range names {
			line := fmt.Sprintf("%sname-%d-%d/", prefix, w, i)
			key := line + "key"
			locks[w] = append(locks[w], clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
				[]clientv3.Op{clientv3.OpPut(key, "", clientv3.WithLease(lease.ID)), clientv3.OpGet(line, clientv3.WithPrefix(), clientv3.WithKeysOnly())}, nil))
			unlocks[w] = append(unlocks[w], clientv3.OpTxn(
				[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), ">", 0)},
				[]clientv3.Op{clientv3.OpDelete(key)}, nil))
		}
	}
	r, err := probe{cluster: cluster}.closedLoop(ctx, underWay, l.length/4, l.length, func(ctx context.Context, w int) error {
		if _, err := client.Txn(ctx).Then(locks[w]...).Commit(); err != nil {
			return err
		}
		_, err := client.Txn(ctx).Then(unlocks[w]...).Commit()
		return err
	})
	if err != nil {
		return nil, err
	}
	r["rate"] *= float64(names)
	r["client"] /= float64(names)
	r["server"] /= float64(names)
	return r, nil
}
