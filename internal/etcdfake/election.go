// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"slices"
	"time"
)

// noLeaderChecks is how many checks, one per election timeout, must find no leader before a member ends the streams
// that require one.
const noLeaderChecks = 3

// SetLeader makes member i the leader at once, as a transfer of leadership does. It does nothing while i reaches no
// quorum.
func (c *Cluster) SetLeader(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.members[i]; m.connected() && c.quorumLocked() {
		c.electLocked(m)
	}
}

// Leader returns the number of the member that leads and reaches a quorum, -1 if there is none.
func (c *Cluster) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.raft.serving {
		return -1
	}
	return c.raft.leader.number
}

// Term returns the raft term.
func (c *Cluster) Term() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.raft.term
}

func (c *Cluster) quorumLocked() bool {
	n := 0
	for _, m := range c.members {
		if m.connected() {
			n++
		}
	}
	return n > len(c.members)/2
}

// reconsiderLocked is called whenever a member comes, goes or is cut off.
func (c *Cluster) reconsiderLocked() {
	r := &c.raft
	// A leader that stepped down stands for election again like everybody else.
	r.serving = r.leader.connected() && r.leader.lead == r.leader && c.quorumLocked()
	if r.serving {
		c.agenda.drop(r.election)
		r.election = nil
		c.gatherLocked()
		return
	}
	for _, m := range c.members {
		if m.lead == m && m.outvotedLocked() {
			m.loseLeaderLocked()
		}
		m.doubtLeaderLocked()
	}
	switch {
	case !c.quorumLocked():
		c.agenda.drop(r.election)
		r.election = nil
	case r.election == nil:
		r.election = c.agenda.after(c.electionDelayLocked(), func() {
			r.election = nil
			c.electSomeoneLocked()
		})
	}
}

// electionDelayLocked draws between one and two election timeouts, as every member does for itself, or below one if
// nobody believes in a leader any more.
func (c *Cluster) electionDelayLocked() time.Duration {
	d := time.Duration(c.rng.Int64N(int64(c.opts.ElectionTimeout)))
	for _, m := range c.members {
		if m.connected() && m.lead != nil {
			return d + c.opts.ElectionTimeout
		}
	}
	return d
}

func (c *Cluster) electSomeoneLocked() {
	var can []*Member
	for _, m := range c.members {
		if m.connected() {
			can = append(can, m)
		}
	}
	if len(can) > len(c.members)/2 {
		c.electLocked(can[c.rng.IntN(len(can))])
	}
}

// electLocked makes m leader of a new term. Of what was proposed under the old one, a random part from the front had
// reached a quorum and is committed by m; the rest is lost without a word.
func (c *Cluster) electLocked(m *Member) {
	r := &c.raft
	changed := r.leader != nil && r.leader != m
	r.term++
	r.leader, r.elected, r.serving = m, time.Now(), true
	if changed && len(r.pending) > 0 {
		r.pending = r.pending[:c.rng.IntN(len(r.pending)+1)]
	}
	for _, e := range r.pending {
		e.due = time.Now()
	}
	m.catchUpLocked()
	c.gatherLocked()
	c.enqueueLocked(&entry{promote: m}, m)
}

// gatherLocked lets every connected member hear of the leader, and every other one miss it.
func (c *Cluster) gatherLocked() {
	for _, m := range c.members {
		if m.connected() {
			m.hearLeaderLocked()
		} else {
			m.doubtLeaderLocked()
		}
	}
	c.advanceLocked()
}

// hearLeaderLocked is a heartbeat of the leader arriving.
func (m *Member) hearLeaderLocked() {
	c := m.cluster
	c.agenda.drop(m.losing)
	c.agenda.drop(m.ending)
	m.losing, m.ending = nil, nil
	m.term = c.raft.term
	if m.lead != c.raft.leader {
		m.lead, m.leadSince = c.raft.leader, time.Now()
		m.elections++
		if m.lead != m {
			m.lessor.demoteLocked()
		}
	}
	m.followLogLocked()
	m.announceLocked()
}

// doubtLeaderLocked starts the clock after which a member that hears of no leader knows none. A leader that reaches
// no quorum steps down by the same clock.
func (m *Member) doubtLeaderLocked() {
	if !m.up || m.paused || m.lead == nil || m.losing != nil {
		return
	}
	if m.lead == m && m.cluster.opts.Lease.FormerLeaderRenews {
		return
	}
	m.losing = m.cluster.agenda.after(m.cluster.opts.ElectionTimeout, m.loseLeaderLocked)
}

// outvotedLocked tells whether m is in touch with a member that has seen a later election, and so hears of it.
func (m *Member) outvotedLocked() bool {
	return m.connected() && slices.ContainsFunc(m.cluster.members, func(o *Member) bool { return o.connected() && o.term > m.term })
}

func (m *Member) loseLeaderLocked() {
	c := m.cluster
	m.losing = nil
	m.lead = nil
	m.lessor.demoteLocked()
	m.announceLocked()
	et := c.opts.ElectionTimeout
	c.agenda.drop(m.ending)
	m.ending = c.agenda.after((noLeaderChecks-1)*et+time.Duration(c.rng.Int64N(int64(et))), func() {
		m.ending = nil
		m.endLeaderlessLocked()
	})
}
