// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/bench/internal/report"
)

// validAxis measures the check before every act of a holder, and a read of the leader's own copy behind it, against what
// asks etcd instead.
func validAxis(ctx context.Context, l *lab) (err error) {
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
	s, err := leasehold.NewSession(ctx, client, leasehold.Config{TTL: leaseTTL, Prefix: newPrefix()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	g, err := s.Lock(ctx, wanted)
	if err != nil {
		return err
	}
	var local atomic.Pointer[string]
	local.Store(new(string))
	t, err := l.turns(ctx, min(l.rounds, 3), []subject{ours, floor}, func(ctx context.Context, s subject, _ int) (reading, error) {
		if s == floor {
			r, err := probe{cluster: cluster}.closedLoop(ctx, 1, l.length/4, l.length, func(ctx context.Context, _ int) error {
				_, err := client.Get(ctx, g.Key())
				return err
			})
			if err != nil {
				return nil, err
			}
			return reading{"valid": r["p50"], "read": r["p50"]}, nil
		}
		valid, read := checks(g, &local)
		if !g.Valid() {
			return nil, fmt.Errorf("the grant was lost meanwhile: %w", g.Err())
		}
		return reading{
			"valid": float64(valid.T.Nanoseconds()) / float64(valid.N) / 1e9, "allocs": float64(valid.AllocsPerOp()),
			"read": float64(read.T.Nanoseconds()) / float64(read.N) / 1e9,
		}, nil
	})
	if err != nil {
		return err
	}
	l.rows("one grant; bare etcd is a linearizable Get", t,
		metric{"valid", "Valid", report.Seconds, no},
		metric{"allocs", "allocations of Valid", report.Count, report.AtMost(0, report.Absolute)},
		metric{"read", "read of a local value behind Valid", report.Seconds, report.AtMost(1.0/500, report.Floor)})
	return nil
}

// checks runs the check alone, and before a read.
func checks(g *leasehold.Grant, local *atomic.Pointer[string]) (valid, read testing.BenchmarkResult) {
	valid = testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !g.Valid() {
				b.Fatal(g.Err())
			}
		}
	})
	read = testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if !g.Valid() || *local.Load() != "" {
				b.Fatal(g.Err())
			}
		}
	})
	return valid, read
}
