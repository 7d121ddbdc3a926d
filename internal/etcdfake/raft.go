// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// raft is the replicated log, seen from above: one list of entries that are proposed, then committed, then applied to
// the shared state, then taken up by each member in its own time. Guarded by the cluster's mutex.
type raft struct {
	term     uint64
	leader   *Member   // the latest elected, also while it has no quorum
	serving  bool      // leader is up and reaches a quorum
	elected  time.Time // when leader was
	election *event    // the next one, while nobody leads

	pending   []*entry // proposed
	committed []*entry // not applied yet
	applied   []*entry // entry i has index i+1
	wake      *event   // for the next commit or application
}

// entry is one proposal on its way through the log.
type entry struct {
	origin *Member                       // the member that was asked; nil for the cluster's own
	change func() (proto.Message, error) // made to the shared state, once
	due    time.Time                     // of the commit, then of the application
	done   chan struct{}                 // closed when origin has applied it

	// What it did, for members that take it up later.
	rev     int64 // of the store afterwards
	resp    proto.Message
	err     error
	granted *lease
	revoked *lease
	promote *Member // leads from here on
}

// SetLatency changes Options.CommitLatency and ApplyLatency for what is proposed and committed from now on.
func (c *Cluster) SetLatency(commit, apply time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opts.CommitLatency, c.opts.ApplyLatency = commit, apply
}

// index is of the last entry that is committed.
func (r *raft) index() int { return len(r.applied) + len(r.committed) }

// revAt is the revision of the store after the first n entries.
func (r *raft) revAt(n int) int64 {
	if n == 0 {
		return 1
	}
	return r.applied[n-1].rev
}

// propose has a change committed on behalf of member m and waits until m has applied it. What the caller gives up on,
// or what times out, may still be applied later.
func (c *Cluster) propose(ctx context.Context, m *Member, e *entry) (proto.Message, error) {
	start := time.Now()
	timeout := time.NewTimer(c.opts.requestTimeout())
	defer timeout.Stop()
	e.origin, e.done = m, make(chan struct{})
	kept := false // m leads without a quorum and has e in its own log: it counts for as long as m leads
	lost := false // e went to a leader that m cannot reach, or that no longer leads: nothing brings it back
	for sent := false; !sent; {
		c.mu.Lock()
		changed := m.changed
		switch {
		case lost:
		case kept && m.lead != m:
			lost = true
		case m.lead == nil: // nobody to send it to
		case c.reachesLeaderLocked(m):
			c.enqueueLocked(e, m)
			sent = true
		case m.lead == m:
			kept = true
		default:
			lost = true
		}
		c.mu.Unlock()
		if sent {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, rpctypes.ErrGRPCCanceled
		case <-timeout.C:
			if lost {
				return nil, c.timeoutError(m, start)
			}
			// The real one's raft node takes no proposal without a leader, and passes the context's own error on.
			return nil, context.DeadlineExceeded
		}
	}
	select {
	case <-e.done:
		return e.resp, e.err
	case <-ctx.Done():
		return nil, rpctypes.ErrGRPCCanceled
	case <-timeout.C:
		return nil, c.timeoutError(m, start)
	}
}

// timeoutError says what etcd suspects when a proposal made at start was not applied in time.
func (c *Cluster) timeoutError(m *Member, start time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	elected := m.leadSince
	switch {
	case start.After(elected.Add(-2*c.opts.ElectionTimeout)) && start.Before(elected):
		return rpctypes.ErrGRPCTimeoutDueToLeaderFail
	case m.lead == nil || c.reachesLeaderLocked(m):
		return rpctypes.ErrGRPCTimeout
	default:
		return rpctypes.ErrGRPCTimeoutDueToConnectionLost
	}
}

// reachesLeaderLocked tells whether what m proposes now arrives at a leader that can commit it.
func (c *Cluster) reachesLeaderLocked(m *Member) bool {
	return c.raft.serving && m.connected() && m.lead == c.raft.leader
}

func (c *Cluster) enqueueLocked(e *entry, via *Member) {
	delay := c.opts.CommitLatency
	if c.opts.CommitJitter > 0 {
		delay += time.Duration(c.rng.Int64N(int64(c.opts.CommitJitter)))
	}
	if via != c.raft.leader {
		delay += c.opts.PeerDelay
	}
	e.due = time.Now().Add(delay)
	if n := len(c.raft.pending); n > 0 && e.due.Before(c.raft.pending[n-1].due) {
		e.due = c.raft.pending[n-1].due
	}
	c.raft.pending = append(c.raft.pending, e)
	c.advanceLocked()
}

// advanceLocked commits and applies what is due and sees to it that it is called when more is.
func (c *Cluster) advanceLocked() {
	r := &c.raft
	for {
		switch {
		case len(r.committed) > 0 && !time.Now().Before(r.committed[0].due):
			e := r.committed[0]
			r.committed = r.committed[1:]
			c.applyLocked(e)
			continue
		case r.serving && len(r.pending) > 0 && !time.Now().Before(r.pending[0].due):
			e := r.pending[0]
			r.pending = r.pending[1:]
			e.due = time.Now().Add(c.opts.ApplyLatency)
			r.committed = append(r.committed, e)
			continue
		}
		break
	}
	c.agenda.drop(r.wake)
	r.wake = nil
	var next time.Time
	if len(r.committed) > 0 {
		next = r.committed[0].due
	}
	if r.serving && len(r.pending) > 0 && (next.IsZero() || r.pending[0].due.Before(next)) {
		next = r.pending[0].due
	}
	if !next.IsZero() {
		r.wake = c.agenda.at(next, c.advanceLocked)
	}
}

func (c *Cluster) applyLocked(e *entry) {
	before := c.store.rev
	if e.change != nil {
		e.resp, e.err = e.change()
		e.change = nil
	}
	e.rev = c.store.rev
	c.raft.applied = append(c.raft.applied, e)
	if e.rev != before {
		c.notifyLocked()
	}
	for _, m := range c.members {
		m.followLogLocked()
	}
}
