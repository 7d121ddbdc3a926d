// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
)

// contention is one name that many want at once, and hold for no time.
type contention struct {
	probe
	client  *clientv3.Client // looks at the line from outside
	prefix  string
	gate    locker   // holds the name until all the others wait
	workers []locker // each is used by one goroutine; the same one may be there several times
}

const wanted = "wanted"

// handOvers measures how the name goes from hand to hand: the time of one is from the call of unlock to the return of
// the next lock, whoever gets it.
func (c contention) handOvers(ctx context.Context, warm, length time.Duration) (_ reading, err error) {
	open, err := c.gate.lock(ctx, wanted)
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var turn baton
	var stopped atomic.Bool
	work := func(k locker) error {
		for !stopped.Load() {
			unlock, err := k.lock(waiting, wanted)
			if err != nil {
				if stopped.Load() {
					return nil // given up, because it is over
				}
				return err
			}
			turn.begins(time.Now())
			turn.ends(time.Now())
			if err := unlock(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	var wg sync.WaitGroup
	for _, k := range c.workers {
		wg.Go(func() {
			if err := work(k); err != nil {
				cancel(err)
			}
		})
	}
	s, err := c.opened(waiting, open, warm, length, &turn.number)
	stopped.Store(true)
	failed := context.Cause(waiting) // before it is cancelled for the end
	cancel(nil)
	wg.Wait()
	if err := errors.Join(err, failed); err != nil {
		return nil, err
	}
	return s.reading(s.within([][]done{turn.handed}))
}

// baton notes how long it takes from the end of one holder's turn to the beginning of the next one's.
type baton struct {
	mu     sync.Mutex // for the memory model only: turns exclude each other by what is measured
	handed []done
	ended  time.Time
	number atomic.Int64 // of those handed over
}

func (t *baton) begins(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended.IsZero() {
		t.handed = append(t.handed, done{now, now.Sub(t.ended)})
		t.number.Add(1)
	}
}

func (t *baton) ends(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = now
}

// opened measures from the moment at which everybody waits.
func (c contention) opened(ctx context.Context, open func(context.Context) error, warm, length time.Duration, number *atomic.Int64) (span, error) {
	if err := c.settled(ctx); err != nil {
		return span{}, err
	}
	runtime.GC()
	if err := open(ctx); err != nil {
		return span{}, err
	}
	return c.measure(ctx, warm, length, number)
}

// settled waits until the line in etcd is as long as there are lockers, or, as a locker may keep a line of its own, has
// not grown for a while.
func (c contention) settled(ctx context.Context) error {
	const look, calm = 10 * time.Millisecond, 300 * time.Millisecond
	length, since := int64(-1), time.Now()
	for {
		resp, err := c.client.Get(ctx, c.prefix+wanted+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("look at the line: %w", err)
		}
		if resp.Count != length {
			length, since = resp.Count, time.Now()
		}
		if length > int64(len(c.workers)) || length > 1 && time.Since(since) > calm {
			return nil
		}
		if err := clock.Wait(ctx, look); err != nil {
			return err
		}
	}
}

// sideBySide calls f for each of n with some at a time, and returns the first error by number, and how many there are. It
// goes on after an error.
func sideBySide(n, atOnce int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = f(i)
			}
		})
	}
	wg.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return fmt.Errorf("%d of %d failed, the first: %w", len(errs), n, errs[0])
	}
}

// openMany opens a locker over each client, side by side, all under one prefix.
func openMany(ctx context.Context, s subject, clients []*clientv3.Client, prefix string, ttl time.Duration) ([]locker, error) {
	lockers := make([]locker, len(clients))
	err := sideBySide(len(clients), 64, func(i int) (err error) {
		lockers[i], err = s.open(ctx, clients[i], prefix, ttl)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, closeMany(ctx, lockers))
	}
	return lockers, nil
}

// closeMany closes lockers side by side. It leaves out nil ones.
func closeMany(ctx context.Context, lockers []locker) error {
	return sideBySide(len(lockers), 64, func(i int) error {
		if lockers[i] == nil {
			return nil
		}
		return lockers[i].close(context.WithoutCancel(ctx))
	})
}
