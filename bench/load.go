// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/proc"
	"example.com/leasehold/bench/internal/sample"
	"example.com/leasehold/internal/clock"
)

// A span is a stretch of time that is measured, with what client and servers used in it.
type span struct {
	begin, end     time.Time
	client, server time.Duration // processor time
	counts         counts
}

// probe is what tells the costs apart while something is measured.
type probe struct {
	cluster *etcd.Cluster
	traffic *traffic // nil: not counted
}

// fewest is how many operations must be completed before a span ends.
const fewest = 10

// measure runs while work goes on: after warm it measures for length, and longer, by the length at a time, if too few
// operations were completed by then: on a machine that stands still for a moment the figure is bad, but there is one. ctx
// ends it early, with an error.
func (p probe) measure(ctx context.Context, warm, length time.Duration, completed *atomic.Int64) (span, error) {
	if err := clock.Wait(ctx, warm); err != nil {
		return span{}, err
	}
	var before counts
	if p.traffic != nil {
		before = p.traffic.counts()
	}
	server, err := p.cluster.Usage()
	if err != nil {
		return span{}, err
	}
	client, err := proc.Spent()
	if err != nil {
		return span{}, err
	}
	s := span{begin: time.Now()}
	for first := completed.Load(); time.Since(s.begin) < length || completed.Load() < first+fewest; {
		if err := clock.Wait(ctx, length); err != nil {
			return span{}, err
		}
	}
	s.end = time.Now()
	clientAfter, err := proc.Spent()
	if err != nil {
		return span{}, err
	}
	serverAfter, err := p.cluster.Usage()
	if err != nil {
		return span{}, err
	}
	if p.traffic != nil {
		s.counts = p.traffic.counts().minus(before)
	}
	s.client, s.server = clientAfter.CPU()-client.CPU(), serverAfter.CPU()-server.CPU()
	return s, nil
}

// done is an operation that was completed.
type done struct {
	at   time.Time
	took time.Duration
}

// within sorts the durations of what was completed within the span.
func (s span) within(all [][]done) []time.Duration {
	var durations []time.Duration
	for _, some := range all {
		for _, d := range some {
			if !d.at.Before(s.begin) && d.at.Before(s.end) {
				durations = append(durations, d.took)
			}
		}
	}
	slices.Sort(durations)
	return durations
}

// reading describes what was completed within the span: its rate, its quantiles and what each cost.
func (s span) reading(durations []time.Duration) (reading, error) {
	if len(durations) == 0 {
		return nil, errors.New("nothing was completed while it was measured")
	}
	n := float64(len(durations))
	return reading{
		"rate":     n / s.end.Sub(s.begin).Seconds(),
		"p50":      sample.Quantile(durations, 0.5) / 1e9,
		"p99":      sample.Quantile(durations, 0.99) / 1e9,
		"worst":    sample.Quantile(durations, 1) / 1e9,
		"client":   s.client.Seconds() / n,
		"server":   s.server.Seconds() / n,
		"requests": float64(s.counts.requests) / n,
		"watched":  float64(s.counts.watched) / n,
		"n":        n,
	}, nil
}

// closedLoop lets so many workers repeat an operation, each as soon as its last one is completed, and measures for a
// while after a warm-up. The first error ends it.
func (p probe) closedLoop(ctx context.Context, workers int, warm, length time.Duration, op func(ctx context.Context, worker int) error) (reading, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var stop atomic.Bool
	var number atomic.Int64
	completed := make([][]done, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for !stop.Load() {
				begin := time.Now()
				if err := op(ctx, w); err != nil {
					cancel(err)
					return
				}
				end := time.Now()
				completed[w] = append(completed[w], done{end, end.Sub(begin)})
				number.Add(1)
			}
		})
	}
	s, err := p.measure(ctx, warm, length, &number)
	stop.Store(true)
	wg.Wait()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return s.reading(s.within(completed))
}
