// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// readRound is one confirmation by a quorum of who leads; every linearizable read that came before it began shares
// it. Rounds of a member run one after the other, so that reads queue behind one that finds no leader.
type readRound struct {
	done chan struct{}
	err  error // written before done is closed
}

func newReadRound() *readRound { return &readRound{done: make(chan struct{})} }

// linearize waits until the member may answer a linearizable read.
func (m *Member) linearize(ctx context.Context) error {
	m.cluster.mu.Lock()
	round := m.round
	m.cluster.mu.Unlock()
	select {
	case m.asked <- struct{}{}:
	default:
	}
	select {
	case <-round.done:
		return round.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// confirmLoop runs the rounds until the cluster is closed.
func (m *Member) confirmLoop() {
	for {
		select {
		case <-m.asked:
		case <-m.cluster.ctx.Done():
			return
		}
		m.cluster.mu.Lock()
		round := m.round
		m.round = newReadRound()
		m.cluster.mu.Unlock()
		round.err = m.confirm(m.cluster.ctx)
		close(round.done)
	}
}

// confirm waits until the member has applied what was committed when a quorum last agreed who leads.
func (m *Member) confirm(ctx context.Context) error {
	c := m.cluster
	timeout, cancel := context.WithTimeout(ctx, c.opts.requestTimeout())
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	elections := m.elections
	for !c.reachesLeaderLocked(m) {
		if m.waitLocked(timeout) != nil {
			return rpctypes.ErrGRPCTimeout
		}
		if m.elections != elections {
			return rpctypes.ErrGRPCLeaderChanged
		}
	}
	index := c.raft.index()
	if len(c.members) > 1 && c.opts.PeerDelay > 0 {
		// To the leader and back, or from it to the others and back.
		c.mu.Unlock()
		err := sleep(ctx, 2*c.opts.PeerDelay)
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	for m.applied < index {
		if c.raft.index() < index {
			return rpctypes.ErrGRPCStopped // the cluster was restored from a backup
		}
		if err := m.waitLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}
