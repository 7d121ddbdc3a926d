// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"

	etcdserver "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

// Pause freezes what goes in and out of the member: the bytes between it and all clients and members are held, in both
// directions, until [Member.Resume]. That is how a stopped process looks from outside. Inside, the member's clock goes
// on: a paused leader steps down by itself after an election timeout, and a lease that ran out meanwhile is gone.
// Direct clients go past the pause. Pausing a paused member changes nothing.
func (m *Member) Pause() { m.setPaused(true) }

// Resume ends [Member.Pause]; what was held is delivered.
func (m *Member) Resume() { m.setPaused(false) }

func (m *Member) setPaused(paused bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.paused == paused {
		return
	}
	m.paused = paused
	turn := (*Link).freeze
	if !paused {
		turn = (*Link).thaw
	}
	m.eachLinkLocked(turn)
	for _, other := range m.cluster.members {
		if other != m {
			turn(m.cluster.PeerLink(m, other))
		}
	}
}

// PeerLink is the path by which one member dials another: nil if they are the same. Most messages between two
// members travel on connections that their receiver has dialled, so the messages from a to b are
// on PeerLink(b, a) downwards, and some on PeerLink(a, b) upwards. [Cluster.CutOneWay] knows that.
func (c *Cluster) PeerLink(from, to *Member) *Link {
	if to.gate == nil {
		return nil
	}
	return to.gate.from[from.index]
}

// Cut cuts two members off from each other: what they send is lost and nothing is reset, until [Cluster.Mend].
// Their clients reach them as before.
func (c *Cluster) Cut(a, b *Member) {
	c.setCut(a, b, true)
	c.setCut(b, a, true)
}

// CutOneWay loses what one member sends to another, but not what it receives from it.
func (c *Cluster) CutOneWay(from, to *Member) { c.setCut(from, to, true) }

// Mend ends [Cluster.Cut] and [Cluster.CutOneWay] between two members, both ways.
func (c *Cluster) Mend(a, b *Member) {
	c.setCut(a, b, false)
	c.setCut(b, a, false)
}

// MendAll mends all pairs of members.
func (c *Cluster) MendAll() { c.eachPair(c.Mend) }

// Isolate cuts a member off from all others. Its clients reach it as before.
func (c *Cluster) Isolate(m *Member) { c.eachOther(m, c.Cut) }

// IsolateLeader cuts the leader of etcd off from all other members, waits until one of them leads, and returns the old one.
// A cluster of one has nobody to replace it: that is an error. The leader of a service is cut off by [Client.Blackhole].
func (c *Cluster) IsolateLeader(ctx context.Context) (old *Member, err error) {
	if len(c.members) == 1 {
		return nil, errors.New("leaseholdtest: isolate the leader: the cluster has one member only")
	}
	old, err = c.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	c.Isolate(old)
	if err := waitUntil(ctx, func() bool { l := c.Leader(); return l != nil && l != old }); err != nil {
		return old, fmt.Errorf("leaseholdtest: isolate the leader: %w", err)
	}
	return old, nil
}

// Rejoin mends a member with all others.
func (c *Cluster) Rejoin(m *Member) { c.eachOther(m, c.Mend) }

// LoseQuorum cuts every pair of members, so that none can reach a quorum while all can be reached by clients. It
// returns when no member believes any more that it leads. A cluster of one never loses its quorum while it runs: that
// is an error.
func (c *Cluster) LoseQuorum(ctx context.Context) error {
	if len(c.members) == 1 {
		return errors.New("leaseholdtest: lose quorum: the cluster has one member only")
	}
	c.eachPair(c.Cut)
	leads := func() bool {
		for _, m := range c.members {
			if m.Leads() {
				return true
			}
		}
		return false
	}
	if err := waitUntil(ctx, func() bool { return !leads() }); err != nil {
		return fmt.Errorf("leaseholdtest: lose quorum: %w", err)
	}
	return nil
}

// RegainQuorum mends all pairs of members and waits for a leader.
func (c *Cluster) RegainQuorum(ctx context.Context) (*Member, error) {
	c.MendAll()
	return c.WaitLeader(ctx)
}

// MoveLeader makes a member etcd's leader, and waits until it is. If the leader changes meanwhile, the new one is asked.
func (c *Cluster) MoveLeader(ctx context.Context, to *Member) error {
	var last error
	for {
		from, err := c.WaitLeader(ctx)
		if err != nil {
			return errors.Join(err, last)
		}
		if from == to {
			return nil
		}
		s := from.server.Load()
		if s == nil {
			return fmt.Errorf("leaseholdtest: move the leader from %s: %w", from, errStopped)
		}
		err = s.etcd.Server.MoveLeader(ctx, from.ID(), to.ID())
		if err == nil {
			err = waitUntil(ctx, func() bool { l := c.Leader(); return l != nil && l != from })
		}
		if err != nil {
			last = fmt.Errorf("leaseholdtest: move the leader from %s to %s: %w", from, to, err)
		}
		if err != nil && (ctx.Err() != nil || !errors.Is(err, etcdserver.ErrNotLeader) && !errors.Is(err, etcdserver.ErrTimeoutLeaderTransfer)) {
			return last
		}
	}
}

func (c *Cluster) setCut(from, to *Member, cut bool) {
	if from == to || to.gate == nil {
		return
	}
	c.PeerLink(from, to).setCut(up, cut)
	c.PeerLink(to, from).setCut(down, cut)
}

func (c *Cluster) eachOther(m *Member, f func(a, b *Member)) {
	for _, other := range c.members {
		if other != m {
			f(m, other)
		}
	}
}

func (c *Cluster) eachPair(f func(a, b *Member)) {
	for i, a := range c.members {
		for _, b := range c.members[i+1:] {
			f(a, b)
		}
	}
}
