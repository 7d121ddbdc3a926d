// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Contender is somebody in the line of a name. The first of a line holds the lock or leads the election, the others
// wait in this order.
type Contender struct {
	// Value names it: the holder of a lock, what a candidate proclaims.
	Value string
	// Key is its key in etcd.
	Key string
	// Token is its fencing token, or the one it will have when its turn comes.
	Token Token
	// Lease is the lease of its key; 0 for a key without one, which somebody else must have put there, and which stays
	// until somebody deletes it.
	Lease clientv3.LeaseID
	// Revision is the revision of the store at which the value was put.
	Revision int64
	// TTL is the lease's term, 0 without a lease.
	TTL time.Duration
	// Remaining is how long the lease lasts by etcd's clock if it is not renewed, rounded down to seconds: of a contender that
	// works, between two thirds of the term and all of it. 0 without a lease, and for a lease that is just going. The holder itself believes
	// for a shorter time. How long the contender has been in line is not known: etcd keeps no times.
	Remaining time.Duration
}

// Candidates returns who stands for election, the leader first; none if nobody does. It costs one linearizable read of the
// line and then one request for each lease in it.
func (e *Election) Candidates(ctx context.Context) ([]Contender, error) {
	line, err := e.contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("leasehold: candidates of %s: %w", quoteBounded(e.name), err)
	}
	return line, nil
}

// Line returns who holds the lock of that name and who waits for it, in order; none if the lock is free. It costs
// what [Election.Candidates] does. Neither needs a session.
func (c *Client) Line(ctx context.Context, name string) ([]Contender, error) {
	return lineOf(ctx, c.Election(name))
}

// Line is [Client.Line] without a Client.
func (s *Session) Line(ctx context.Context, name string) ([]Contender, error) {
	return lineOf(ctx, s.Election(name))
}

func lineOf(ctx context.Context, e *Election) ([]Contender, error) {
	line, err := e.contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("leasehold: line of %s: %w", quoteBounded(e.name), err)
	}
	return line, nil
}

func (e *Election) contenders(ctx context.Context) ([]Contender, error) {
	state, err := e.line(ctx)
	if err != nil {
		return nil, err
	}
	line := make([]Contender, len(state.kvs))
	leases := make(map[clientv3.LeaseID][]*Contender)
	for i, kv := range state.kvs {
		l := leaderOf(kv)
		line[i] = Contender{Value: l.Value, Key: l.Key, Token: l.Token, Lease: l.Lease, Revision: l.Revision}
		if l.Lease != 0 {
			leases[l.Lease] = append(leases[l.Lease], &line[i])
		}
	}
	return line, e.askTerms(ctx, leases)
}

// askTerms asks for the terms of leases, some at a time.
func (e *Election) askTerms(ctx context.Context, leases map[clientv3.LeaseID][]*Contender) error {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	room := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for lease, contenders := range leases {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			resp, err := e.timeToLive(asking, lease)
			if err != nil {
				cancel(err)
				return
			}
			for _, c := range contenders {
				c.TTL = time.Duration(resp.GrantedTTL) * time.Second
				c.Remaining = max(0, time.Duration(resp.TTL)*time.Second) // below zero: it has gone since the line was read
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ending(ctx)
	}
	return context.Cause(asking) // nil, or the first failure
}

// timeToLive asks until it is answered: a member that is silent is asked once, then another.
func (e *Election) timeToLive(ctx context.Context, lease clientv3.LeaseID) (*clientv3.LeaseTimeToLiveResponse, error) {
	for try := 0; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, min(500*time.Millisecond<<min(try, 3), 2*time.Second))
		resp, err := e.etcd.Lease.TimeToLive(attempt, lease)
		cancel()
		switch {
		case err == nil:
			return resp, nil
		case judge(err) == outcomeRefused:
			return nil, fmt.Errorf("lease %x: %w", int64(lease), err)
		}
		if pause(ctx, min(20*time.Millisecond<<min(try, 6), time.Second)) != nil {
			return nil, fmt.Errorf("%w (last attempt: %w)", ending(ctx), err)
		}
		if unreachable(e.etcd) {
			reconnect(e.etcd)
		}
	}
}
