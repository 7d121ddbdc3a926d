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
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/internal/clock"
)

// leaderAxis kills etcd's leader under held locks, and under callers that go on locking: what is lost, and how long
// nothing is granted. Both subjects live through the same crash.
func leaderAxis(ctx context.Context, l *lab) (err error) {
	ttl := l.brief(5 * time.Second)
	n := l.sized(100)
	cluster, err := l.cluster(ctx, func(o *etcd.Options) { o.Members = 3 })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := dialMany(ctx, cluster, 3, &traffic{})
	defer func() { err = errors.Join(err, hangUp(clients)) }()
	if err != nil {
		return err
	}
	held, err := holdBoth(ctx, clients, ttl, n)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.close(context.WithoutCancel(ctx))) }()
	callers := make([]locker, len(pair))
	defer func() { err = errors.Join(err, closeMany(ctx, callers)) }()
	for i, s := range pair {
		if callers[i], err = s.open(ctx, clients[i], newPrefix(), ttl); err != nil {
			return err
		}
	}
	locking, stop := context.WithCancel(ctx)
	defer stop()
	t := taken{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, s := range pair {
		wg.Go(func() {
			stall, failed := lockThrough(locking, callers[i])
			mu.Lock()
			defer mu.Unlock()
			t[s] = []reading{{"stall": stall.Seconds(), "failed": float64(failed)}}
		})
	}
	leader, err := cluster.Leader(ctx, clients[2])
	if err == nil {
		err = clock.Wait(ctx, time.Second)
	}
	if err == nil {
		cluster.Kill(leader)
		err = clock.Wait(ctx, 2*ttl) // what is not renewed over the other members runs out
	}
	stop()
	wg.Wait()
	if err != nil {
		return err
	}
	t[ours][0]["lost"], t[theirs][0]["lost"] = float64(held.lostOurs()), float64(held.lostTheirs())
	l.rows(fmt.Sprintf("three members, SIGKILL of the leader, TTL %v, %d held", ttl, n), t,
		metric{"lost", "locks lost", report.Count, report.AtMost(0, report.Absolute)},
		metric{"stall", "longest time without a lock granted", report.Seconds, no},
		metric{"failed", "calls that returned an error", report.Count, no})
	return nil
}

// lockThrough locks and unlocks until ctx ends, and returns the longest time between two locks, and how many calls failed.
func lockThrough(ctx context.Context, k locker) (stall time.Duration, failed int) {
	last := time.Now()
	for i := 0; ctx.Err() == nil; i++ {
		unlock, err := k.lock(ctx, fmt.Sprintf("through-%d", i))
		if err == nil {
			now := time.Now()
			stall, last = max(stall, now.Sub(last)), now
			err = unlock(ctx)
		}
		if err != nil && ctx.Err() == nil {
			failed++
			_ = clock.Wait(ctx, 10*time.Millisecond) // as a caller would that tries again
		}
	}
	return max(stall, time.Since(last)), failed
}

// heldBoth are locks of both subjects.
type heldBoth struct {
	pool     *leasehold.Client
	grants   []*leasehold.Grant
	sessions []*concurrency.Session
}

// holdBoth takes n locks with each subject, each over a client of its own: ours through a pool, theirs over a session each.
func holdBoth(ctx context.Context, clients []*clientv3.Client, ttl time.Duration, n int) (*heldBoth, error) {
	h := &heldBoth{grants: make([]*leasehold.Grant, n), sessions: make([]*concurrency.Session, n)}
	prefix := newPrefix()
	var err error
	if h.pool, err = leasehold.New(clients[0], leasehold.Config{TTL: ttl, Prefix: prefix + "ours/"}); err != nil {
		return nil, err
	}
	err = sideBySide(n, 64, func(i int) (err error) {
		if h.grants[i], err = h.pool.Lock(ctx, heldName(i)); err != nil {
			return err
		}
		if h.sessions[i], err = concurrency.NewSession(clients[1], concurrency.WithTTL(int(ttl/time.Second))); err != nil {
			return err
		}
		return concurrency.NewMutex(h.sessions[i], prefix+"theirs/"+heldName(i)).Lock(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, h.close(context.WithoutCancel(ctx)))
	}
	return h, nil
}

func (h *heldBoth) lostOurs() int {
	return len(h.grants) - len(slices.DeleteFunc(slices.Clone(h.grants), func(g *leasehold.Grant) bool { return !g.Valid() }))
}

func (h *heldBoth) lostTheirs() int {
	lost := 0
	for _, s := range h.sessions {
		select {
		case <-s.Done():
			lost++
		default:
		}
	}
	return lost
}

func (h *heldBoth) close(ctx context.Context) error {
	err := h.pool.Close(ctx)
	return errors.Join(err, sideBySide(len(h.sessions), 64, func(i int) error {
		if s := h.sessions[i]; s != nil {
			select {
			case <-s.Done():
			default:
				return s.Close()
			}
		}
		return nil
	}))
}
