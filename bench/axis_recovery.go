// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/internal/clock"
)

// recoveryAxis kills a process that holds many names and measures when all of them are free again. etcd revokes at most
// a thousand leases a second, and Leasehold's pool needs few; with the concurrency package, a lock that is to
// exclude others in its process needs a lease of its own.
func recoveryAxis(ctx context.Context, l *lab) (err error) {
	ttl := l.brief(5 * time.Second)
	n := l.sized(10_000)
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	subjects := []subject{ours}
	if l.full || l.instant {
		subjects = pair
	}
	t, err := l.turns(ctx, 1, subjects, func(ctx context.Context, s subject, _ int) (reading, error) {
		return recovery(ctx, cluster, s, ttl, n)
	})
	if err != nil {
		return err
	}
	l.rows(fmt.Sprintf("%d names, TTL %v", n, ttl), t,
		metric{"free", "from SIGKILL until all names are free", report.Seconds, report.AtMost(ttl.Seconds()+1, report.Absolute)})
	return nil
}

func recovery(ctx context.Context, cluster *etcd.Cluster, s subject, ttl time.Duration, n int) (_ reading, err error) {
	client, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	args := holderArgs{Subject: s, Endpoints: cluster.Endpoints, Prefix: newPrefix(), TTL: ttl, Locks: n}
	if s == theirs {
		args.Sessions, args.Over = n, 2*ttl/3
	}
	h, err := startHolder(args)
	if err != nil {
		return nil, err
	}
	defer h.Kill()
	if err := h.open(); err != nil {
		return nil, err
	}
	if err := clock.Wait(ctx, ttl); err != nil { // all have been renewed
		return nil, err
	}
	if state, err := h.state(); err != nil || state.Alive == 0 {
		return nil, errors.Join(fmt.Errorf("%d are alive", state.Alive), err)
	}
	begin := time.Now()
	h.Kill()
	if err := waitForLine(ctx, client, args.Prefix, 0); err != nil {
		return nil, err
	}
	return reading{"free": time.Since(begin).Seconds()}, nil
}
