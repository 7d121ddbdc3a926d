// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
	"example.com/leasehold/bench/internal/report"
)

// openAxis opens many sessions of one etcd client at the same time, against as many bare grants of a lease.
func openAxis(ctx context.Context, l *lab) error {
	n := l.sized(10_000)
	t, err := l.turns(ctx, min(l.rounds, 3), all, func(ctx context.Context, s subject, _ int) (reading, error) {
		return l.openSessions(ctx, s, n)
	})
	if err != nil {
		return err
	}
	l.rows(fmt.Sprintf("%d sessions, %d at a time", n, openAtOnce), t,
		metric{"took", "time", report.Seconds, no},
		metric{"rate", "sessions", report.PerSecond, no},
		metric{"calls", "requests per session", report.Count, report.AtMost(1.01, report.Absolute)})
	return nil
}

// openAtOnce is how many sessions are being opened at any time.
const openAtOnce = 1000

// openSessions opens sessions on a cluster of their own, which is killed afterwards: to close them in order would take
// longer than the rest. The client's side gives them up in order.
func (l *lab) openSessions(ctx context.Context, s subject, n int) (_ reading, err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var counted traffic
	client, err := dial(ctx, cluster.Endpoints, counted.options()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	give := make([]func(), n)
	defer func() {
		for _, up := range give {
			if up != nil {
				up()
			}
		}
	}()
	runtime.GC()
	before, begin := counted.calls.Load(), time.Now()
	err = sideBySide(n, openAtOnce, func(i int) (err error) {
		give[i], err = openSession(ctx, client, s)
		return err
	})
	took, calls := time.Since(begin), counted.calls.Load()-before
	if err != nil {
		return nil, err
	}
	return reading{"took": took.Seconds(), "rate": float64(n) / took.Seconds(), "calls": float64(calls) / float64(n)}, nil
}

// openSession opens one session, or for the floor grants one lease, and returns what gives it up without a word to etcd.
func openSession(ctx context.Context, client *clientv3.Client, s subject) (giveUp func(), err error) {
	switch s {
	case ours:
		session, err := leasehold.NewSession(ctx, client, leasehold.Config{TTL: leaseTTL})
		if err != nil {
			return nil, err
		}
		return session.Abandon, nil
	case theirs:
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(leaseTTL/time.Second)))
		if err != nil {
			return nil, err
		}
		return session.Orphan, nil
	default:
		_, err := client.Grant(ctx, int64(leaseTTL/time.Second))
		return nil, err
	}
}
