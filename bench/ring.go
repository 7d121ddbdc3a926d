// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ring is the floor of a hand-over: each client watches a key of its own, and writes the next one's as soon as its own is
// written. One write and one event hand a turn over; nothing is locked, queued or checked.
func ring(ctx context.Context, p probe, clients []*clientv3.Client, warm, length time.Duration) (_ reading, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	prefix := newPrefix()
	key := func(i int) string { return fmt.Sprintf("%s%d", prefix, i%len(clients)) }
	watches := make([]clientv3.WatchChan, len(clients))
	for i, c := range clients {
		watches[i] = c.Watch(clientv3.WithRequireLeader(ctx), key(i), clientv3.WithCreatedNotify())
	}
	for _, w := range watches {
		if created := <-w; created.Err() != nil {
			return nil, created.Err()
		}
	}
	var turn baton
	var stopped atomic.Bool
	pass := func(i int) error {
		turn.ends(time.Now())
		_, err := clients[i].Put(ctx, key(i+1), "")
		return err
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for resp := range watches[i] {
				err := resp.Err()
				now := time.Now()
				if err == nil && len(resp.Events) > 0 {
					turn.begins(now)
					err = pass(i)
				}
				if err != nil {
					if !stopped.Load() {
						cancel(err)
					}
					return
				}
			}
		})
	}
	if err := pass(len(clients) - 1); err != nil {
		cancel(err)
	}
	s, err := p.measure(ctx, warm, length, &turn.number)
	stopped.Store(true)
	failed := context.Cause(ctx)
	cancel(nil)
	wg.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return s.reading(s.within([][]done{turn.handed}))
}
