// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/internal/clock"
)

// grantsAxis weighs many grants that one client holds, and counts what keeping them costs.
func grantsAxis(ctx context.Context, l *lab) (err error) {
	ttl := l.brief(12 * time.Second)
	n := l.sized(10_000)
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	client, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	h, err := startHolder(holderArgs{Subject: ours, Endpoints: cluster.Endpoints, Prefix: newPrefix(), TTL: ttl, Locks: n})
	if err != nil {
		return err
	}
	defer h.Stop(stopPatience)
	before, err := h.weigh()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := h.open(); err != nil {
		return err
	}
	opened := time.Since(begin)
	// Grants are watched when they are older than a second, and what acquiring has left behind is gone by then.
	if err := clock.Wait(ctx, 2*time.Second); err != nil {
		return err
	}
	after, err := h.weigh()
	if err != nil {
		return err
	}
	first, err := h.state()
	if err != nil {
		return err
	}
	if err := clock.Wait(ctx, ttl); err != nil {
		return err
	}
	last, err := h.state()
	if err != nil {
		return err
	}
	if last.Alive != n {
		return fmt.Errorf("%d of %d grants are alive", last.Alive, n)
	}
	leases, err := client.Leases(ctx)
	if err != nil {
		return err
	}
	r := reading{
		"leases":     float64(len(leases.Leases)),
		"renewals":   float64(last.Keepalives-first.Keepalives) / 3,
		"live":       float64(after.Live-before.Live) / float64(n),
		"resident":   float64(after.Resident-before.Resident) / float64(n),
		"goroutines": float64(after.Goroutines - before.Goroutines),
		"open":       float64(n) / opened.Seconds(),
	}
	few := report.AtMost(40, report.Absolute)
	small := report.AtMost(1024, report.Absolute)
	l.rows(fmt.Sprintf("%d grants, TTL %v", n, ttl), taken{ours: {r}},
		metric{"leases", "leases", report.Count, few},
		metric{"renewals", "renewals per third of the TTL", report.Count, no},
		metric{"live", "heap and stacks per grant", report.Bytes, small},
		metric{"resident", "resident memory per grant", report.Bytes, small},
		metric{"goroutines", "goroutines more", report.Count, no},
		metric{"open", "locks while taking them", report.PerSecond, no})
	return nil
}
