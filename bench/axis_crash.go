// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/bench/internal/sample"
	"example.com/leasehold/internal/clock"
)

// crashAxis measures how long a name stays taken after its holder has let go of it, or has died.
func crashAxis(ctx context.Context, l *lab) (err error) {
	cluster, err := l.cluster(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := dialMany(ctx, cluster, 3, &traffic{})
	defer func() { err = errors.Join(err, hangUp(clients)) }()
	if err != nil {
		return err
	}
	for _, end := range []struct {
		how  ending
		name string
	}{{unlocking, "after a release"}, {closing, "after the session's close"}} {
		t, err := l.turns(ctx, l.rounds, pair, func(ctx context.Context, s subject, _ int) (reading, error) {
			var took []time.Duration
			for range l.sized(10) {
				d, err := isolated(ctx, s, clients, end.how)
				if err != nil {
					return nil, err
				}
				took = append(took, d)
			}
			return quantiles(took), nil
		})
		if err != nil {
			return fmt.Errorf("%s: %w", end.name, err)
		}
		l.rows(end.name, t, p50(no), metric{"worst", "worst of a round", report.Seconds, no})
	}
	ttls := []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}
	if l.instant {
		ttls = []time.Duration{l.brief(ttls[0])}
	}
	return l.kills(ctx, cluster, clients[0], ttls)
}

func quantiles(took []time.Duration) reading {
	slices.Sort(took)
	return reading{"p50": sample.Quantile(took, 0.5) / 1e9, "worst": sample.Quantile(took, 1) / 1e9}
}

// killings is how many processes are killed for each term and subject, each at another point of the half second
// in which etcd looks for expired leases once.
const killings = 3

// kills kills holders of all terms and subjects. They wait side by side, because they do little else.
func (l *lab) kills(ctx context.Context, cluster *etcd.Cluster, client *clientv3.Client, ttls []time.Duration) error {
	results := make([]map[subject][]time.Duration, len(ttls))
	for i := range results {
		results[i] = map[subject][]time.Duration{}
	}
	var errs []error
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, ttl := range ttls {
		for _, s := range pair {
			for k := range killings {
				wg.Go(func() {
					took, err := l.kill(ctx, cluster, client, s, ttl, time.Duration(k)*500*time.Millisecond/killings)
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						errs = append(errs, fmt.Errorf("kill a holder of %s, TTL %v: %w", s, ttl, err))
					}
					results[i][s] = append(results[i][s], took...)
				})
			}
		}
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, ttl := range ttls {
		l.rows(fmt.Sprintf("after SIGKILL, TTL %v", ttl), taken{ours: {quantiles(results[i][ours])}, theirs: {quantiles(results[i][theirs])}},
			p50(report.AtMost(ttl.Seconds(), report.Absolute)),
			metric{"worst", fmt.Sprintf("worst of %d", len(results[i][ours])), report.Seconds, report.AtMost(ttl.Seconds()+0.6, report.Absolute)})
	}
	return nil
}

// killed is how many sessions die with a process. They are renewed at different times, so that each dies at another
// point of its term.
const killed = 10

// kill kills a process that holds names while others wait for them, and returns how long each waits from then on.
func (l *lab) kill(ctx context.Context, cluster *etcd.Cluster, client *clientv3.Client, s subject, ttl, later time.Duration) (_ []time.Duration, err error) {
	n := l.sized(killed)
	prefix := newPrefix()
	h, err := startHolder(holderArgs{
		Subject: s, Endpoints: cluster.Endpoints, Prefix: prefix, TTL: ttl, Sessions: n, Locks: n, Over: ttl / 3,
	})
	if err != nil {
		return nil, err
	}
	defer h.Kill()
	if err := h.open(); err != nil {
		return nil, err
	}
	k, err := s.open(ctx, client, prefix, leaseTTL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, k.close(context.WithoutCancel(ctx))) }()
	granted := make([]time.Time, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var unlock func(context.Context) error
			if unlock, errs[i] = k.lock(ctx, heldName(i)); errs[i] == nil {
				granted[i] = time.Now()
				errs[i] = unlock(ctx)
			}
		})
	}
	err = waitForLine(ctx, client, prefix, 2*n)
	if err == nil {
		err = clock.Wait(ctx, 2*ttl/3+later) // all have been renewed
	}
	begin := time.Now()
	h.Kill()
	wg.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i, at := range granted {
		took[i] = at.Sub(begin)
	}
	return took, nil
}
