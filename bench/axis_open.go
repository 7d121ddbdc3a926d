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
	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
)

// openAxis opens many sessions of one etcd client at the same time, against as many bare grants of a lease.
func openAxis(ctx context.Context, l *lab) (err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	n := l.sized(10_000)
	t, err := l.turns(ctx, min(l.rounds, 3), all, func(ctx context.Context, s subject, _ int) (reading, error) {
		return openSessions(ctx, cluster, s, n)
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

func openSessions(ctx context.Context, cluster *etcd.Cluster, s subject, n int) (_ reading, err error) {
	var counted traffic
	client, err := dial(ctx, cluster.Endpoints, counted.options()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	closers := make([]func() error, n)
	defer func() {
		err = errors.Join(err, sideBySide(n, 256, func(i int) error {
			if closers[i] == nil {
				return nil
			}
			return closers[i]()
		}))
	}()
	runtime.GC()
	before, begin := counted.calls.Load(), time.Now()
	err = sideBySide(n, openAtOnce, func(i int) (err error) {
		closers[i], err = openSession(ctx, client, s)
		return err
	})
	took, calls := time.Since(begin), counted.calls.Load()-before
	if err != nil {
		return nil, err
	}
	return reading{"took": took.Seconds(), "rate": float64(n) / took.Seconds(), "calls": float64(calls) / float64(n)}, nil
}

// openSession opens one session, or for the floor grants one lease, and returns how to close it.
func openSession(ctx context.Context, client *clientv3.Client, s subject) (func() error, error) {
	closing := context.WithoutCancel(ctx)
	switch s {
	case ours:
		session, err := leasehold.NewSession(ctx, client, leasehold.Config{TTL: leaseTTL})
		if err != nil {
			return nil, err
		}
		return func() error { return session.Close(closing) }, nil
	case theirs:
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(leaseTTL/time.Second)))
		if err != nil {
			return nil, err
		}
		return session.Close, nil
	default:
		lease, err := client.Grant(ctx, int64(leaseTTL/time.Second))
		if err != nil {
			return nil, err
		}
		return func() error {
			_, err := client.Revoke(closing, lease.ID)
			return err
		}, nil
	}
}
