// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/bench/internal/sample"
	"example.com/leasehold/internal/clock"
)

// isolatedAxis measures single hand-overs from one client to another that has waited for a while, far away from etcd:
// how many round trips are between the call of unlock and the return of the other's lock.
func isolatedAxis(ctx context.Context, l *lab) (err error) {
	const trip = 10 * time.Millisecond
	cluster, err := l.cluster(ctx, func(o *etcd.Options) { o.RTT = trip })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	clients, err := dialMany(ctx, cluster, 3, &traffic{})
	defer func() { err = errors.Join(err, hangUp(clients)) }()
	if err != nil {
		return err
	}
	t, err := l.turns(ctx, l.rounds, all, func(ctx context.Context, s subject, _ int) (reading, error) {
		var took []time.Duration
		for range l.sized(8) {
			var d time.Duration
			var err error
			if s == floor {
				d, err = tell(ctx, clients[0], clients[1])
			} else {
				d, err = isolated(ctx, s, clients, unlocking)
			}
			if err != nil {
				return nil, err
			}
			took = append(took, d)
		}
		slices.Sort(took)
		return reading{
			"trips":  sample.Quantile(took, 0.5) / float64(trip),
			"most":   sample.Quantile(took, 1) / float64(trip),
			"median": sample.Quantile(took, 0.5) / 1e9,
		}, nil
	})
	if err != nil {
		return err
	}
	l.rows(fmt.Sprintf("round trip of %v", trip), t,
		metric{"trips", "median", report.Trips, report.AtMost(1.3, report.Absolute)},
		metric{"most", "worst of a round", report.Trips, no},
		metric{"median", "median", report.Seconds, no})
	return nil
}

// ending is how a holder lets go.
type ending int

const (
	unlocking ending = iota
	closing
)

// isolated hands a name from the first client to the second, which waits, and returns how long that takes. The third looks at
// the line.
func isolated(ctx context.Context, s subject, clients []*clientv3.Client, how ending) (_ time.Duration, err error) {
	prefix := newPrefix()
	lockers, err := openMany(ctx, s, clients[:2], prefix, leaseTTL)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeMany(ctx, lockers)) }()
	unlock, err := lockers[0].lock(ctx, wanted)
	if err != nil {
		return 0, err
	}
	type locked struct {
		at     time.Time
		unlock func(context.Context) error
		err    error
	}
	next := make(chan locked, 1)
	go func() {
		unlock, err := lockers[1].lock(ctx, wanted)
		next <- locked{time.Now(), unlock, err}
	}()
	if err := waitForLine(ctx, clients[2], prefix+wanted+"/", 2); err != nil {
		return 0, err
	}
	if err := clock.Wait(ctx, 50*time.Millisecond); err != nil { // the waiter has made its preparations
		return 0, err
	}
	begin := time.Now()
	if how == closing {
		err = lockers[0].close(ctx)
		lockers[0] = nil
	} else {
		err = unlock(ctx)
	}
	n := <-next
	if err := errors.Join(err, n.err); err != nil {
		return 0, err
	}
	return n.at.Sub(begin), n.unlock(ctx)
}

// lineWait is how long a line may take to form. If it does not, somebody has lost his session, on a machine that is too busy to
// measure anything.
const lineWait = time.Minute

// waitForLine waits until there are so many keys under a prefix.
func waitForLine(ctx context.Context, client *clientv3.Client, prefix string, n int) error {
	for begin := time.Now(); ; {
		resp, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("look at %s: %w", prefix, err)
		}
		if resp.Count == int64(n) {
			return nil
		}
		if time.Since(begin) > lineWait {
			return fmt.Errorf("after %v %d stand in line under %s, want %d", lineWait, resp.Count, prefix, n)
		}
		if err := clock.Wait(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// tell is the floor: the time from a write by one client to its event at another.
func tell(ctx context.Context, from, to *clientv3.Client) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := newPrefix()
	watch := to.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithCreatedNotify())
	if created := <-watch; created.Err() != nil {
		return 0, created.Err()
	}
	begin := time.Now()
	told := make(chan time.Time, 1)
	go func() {
		<-watch
		told <- time.Now()
	}()
	if _, err := from.Put(ctx, key, ""); err != nil {
		return 0, err
	}
	select {
	case at := <-told:
		return at.Sub(begin), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}
