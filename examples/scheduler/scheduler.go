// SPDX-License-Identifier: Apache-2.0

// Package scheduler is a small service of several replicas, one of which does the work. It is here for its tests, which
// docs/testing-your-service.md explains: a leader that is cut off, a write that comes too late, and the work alone.
package scheduler

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// Journal is what the leader writes to. It compares tokens: it refuses one that is lower than the highest it has seen.
type Journal interface {
	Append(ctx context.Context, token leasehold.Token, entry string) error
}

// Config is what differs between the replicas, and between production and tests.
type Config struct {
	Address string        // of this replica
	TTL     time.Duration // of its leadership
	Every   time.Duration // between two entries
}

// Scheduler is one replica.
type Scheduler struct {
	config  Config
	journal Journal
	locks   *leasehold.Client
	elector *leasehold.Elector
}

// New makes a replica. The etcd client is the caller's, who closes it after [Scheduler.Run] has returned.
func New(client *clientv3.Client, journal Journal, config Config) (*Scheduler, error) {
	locks, err := leasehold.New(client, leasehold.Config{TTL: config.TTL})
	if err != nil {
		return nil, err
	}
	s := &Scheduler{config: config, journal: journal, locks: locks}
	s.elector, err = leasehold.NewElector(locks, leasehold.ElectorConfig{
		Name:  "scheduler",
		Value: config.Address, // what others see
		OnStartedLeading: func(ctx context.Context, l *leasehold.Leadership) {
			s.work(ctx, l.Token()) // until ctx ends
		},
	})
	return s, err
}

// Run stands in line, leads when it is its turn, and goes on until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	err := s.elector.Run(ctx)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, s.locks.Close(closing))
}

// work is what the leader does. It takes a token and no leadership, so that a test can call it without etcd.
func (s *Scheduler) work(ctx context.Context, token leasehold.Token) {
	tick := time.NewTicker(s.config.Every)
	defer tick.Stop()
	for {
		if err := s.journal.Append(ctx, token, s.config.Address); err != nil {
			return // give the leadership up: refused, or another replica may have more luck
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
