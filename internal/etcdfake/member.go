// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Member is one member of the cluster and the faults it can suffer. Safe for concurrent use.
type Member struct {
	cluster  *Cluster
	number   int
	id       uint64
	address  string
	listener *listener
	server   *grpc.Server

	listening atomic.Bool
	asked     chan struct{} // holds a token while a linearizable read waits for a round

	linkMu     sync.Mutex
	links      []*Link
	blackholed bool
	frozen     bool // as paused, for new links

	// Guarded by the cluster's mutex.
	up, paused, isolated bool
	lead                 *Member // whom it believes to lead; nil if nobody
	leadSince            time.Time
	elections            int // counts the leaders it has heard of
	term                 uint64
	losing, ending       *event // it will lose its leader, end the streams that require one
	applied              int    // entries of the log
	known                int    // of them, those it knew to be committed when it was isolated
	lag                  time.Duration
	clock                clock
	lessor               lessor
	watches              watchHub
	requiring            []*leaderContext // of streams that require a leader, oldest first
	round                *readRound       // the next one
	changed              chan struct{}    // closed and replaced when anything above that is waited for changes
}

func newMember(c *Cluster, i int) *Member {
	m := &Member{
		cluster: c, number: i, id: firstMemberID + uint64(i), address: fmt.Sprintf("m%d.fake:2379", i),
		up: true, clock: newClock(), changed: make(chan struct{}),
		asked: make(chan struct{}, 1), round: newReadRound(),
	}
	m.listener = newListener(m.address)
	m.listening.Store(true)
	m.lessor = newLessor(m)
	m.watches.init(m)
	m.server = newServer(m)
	return m
}

func (m *Member) serve() { _ = m.server.Serve(m.listener) } // ends when Close stops the server

// ID returns the member's id.
func (m *Member) ID() uint64 { return m.id }

// Endpoint returns the member's address.
func (m *Member) Endpoint() string { return m.address }

// Stop ends the member's process: its connections are reset and new ones refused.
func (m *Member) Stop() {
	m.change(func() {
		m.up = false
		m.lead = nil
		m.lessor.demoteLocked()
		m.cluster.agenda.drop(m.losing)
		m.cluster.agenda.drop(m.ending)
		m.losing, m.ending = nil, nil
	})
	m.listening.Store(false)
	m.hangUp()
}

// Start starts the process again. It has lost nothing that was committed.
func (m *Member) Start() {
	m.listening.Store(true)
	m.change(func() {
		m.up = true
		m.lessor.phase = time.Duration(m.cluster.rng.Int64N(int64(scanInterval)))
	})
}

// Restart stops and starts the member in one instant.
func (m *Member) Restart() {
	m.Stop()
	m.Start()
}

// Blackhole makes the network between the member and all clients hold every byte, and every new connection, without
// telling anyone. The other members still reach it. Unblackhole delivers what was held.
func (m *Member) Blackhole() { m.holdAll(&m.blackholed, true) }

// Unblackhole ends Blackhole.
func (m *Member) Unblackhole() { m.holdAll(&m.blackholed, false) }

// Pause stops the member's process without ending it, as SIGSTOP does: it answers nobody and takes no part in the
// cluster, and its connections stay. Resume lets it go on with everything that has piled up.
func (m *Member) Pause() {
	m.change(func() {
		m.paused = true
		m.cluster.agenda.drop(m.losing)
		m.cluster.agenda.drop(m.ending)
		m.losing, m.ending = nil, nil
	})
	m.holdAll(&m.frozen, true)
}

// Resume ends Pause.
func (m *Member) Resume() {
	m.change(func() {
		m.paused = false
		if m.cluster.opts.Lease.ResumedStepsDown && m.lead == m && m.term < m.cluster.raft.term {
			m.loseLeaderLocked()
		}
		if m.lessor.primary {
			m.lessor.armLocked(m.clock.now())
		}
	})
	m.holdAll(&m.frozen, false)
}

// Isolate cuts the member off from all others, not from its clients. What it knows to be committed it still applies.
func (m *Member) Isolate() {
	m.change(func() {
		if !m.isolated {
			m.isolated, m.known = true, m.cluster.raft.index()
		}
	})
}

// Rejoin ends Isolate.
func (m *Member) Rejoin() { m.change(func() { m.isolated = false }) }

// SetLag sets how long after the leader this member applies what is committed. A leader has none.
func (m *Member) SetLag(d time.Duration) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.lag = d
}

// SetClockRate sets how fast the member's clock runs: 1.001 gains a millisecond a second. It times leases and nothing
// else.
func (m *Member) SetClockRate(rate float64) {
	m.changeClock(func() { m.clock.change(rate, m.clock.stopped) })
}

// StopClock makes the member's clock stand still, as a monotonic clock does while its machine sleeps.
func (m *Member) StopClock() { m.changeClock(func() { m.clock.change(m.clock.rate, true) }) }

// StartClock ends StopClock.
func (m *Member) StartClock() { m.changeClock(func() { m.clock.change(m.clock.rate, false) }) }

// LeapClock moves the member's clock ahead at once, as one that counts suspend moves while its machine sleeps.
func (m *Member) LeapClock(d time.Duration) { m.changeClock(func() { m.clock.leap(max(0, d)) }) }

func (m *Member) changeClock(f func()) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	f()
	if m.lessor.primary {
		m.lessor.armLocked(m.clock.now())
	}
}

// ResetConnections resets every client's connections to the member.
func (m *Member) ResetConnections() {
	for _, l := range m.allLinks() {
		l.Reset()
	}
}

func (m *Member) change(f func()) {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.reconsiderLocked()
	m.announceLocked()
}

// connected tells whether the member takes part in the cluster.
func (m *Member) connected() bool { return m.up && !m.paused && !m.isolated }

// announceLocked wakes everything that waits for a change of the member.
func (m *Member) announceLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// waitLocked gives the mutex up until the member changes or ctx ends.
func (m *Member) waitLocked(ctx context.Context) error {
	changed := m.changed
	m.cluster.mu.Unlock()
	defer m.cluster.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitRunning blocks while the process is paused.
func (m *Member) awaitRunning(ctx context.Context) error {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	for m.paused {
		if err := m.waitLocked(ctx); err != nil {
			return err
		}
	}
	return nil
}

// followLogLocked takes up what the cluster has applied, after the member's lag.
func (m *Member) followLogLocked() {
	if m.up && !m.paused && m.isolated {
		m.takeUpLocked(m.known)
		return
	}
	if !m.connected() {
		return
	}
	if m.lag <= 0 || m.cluster.raft.leader == m {
		m.catchUpLocked()
		return
	}
	n := len(m.cluster.raft.applied)
	m.cluster.agenda.after(m.lag, func() {
		if m.connected() {
			m.takeUpLocked(n)
		}
	})
}

func (m *Member) catchUpLocked() { m.takeUpLocked(len(m.cluster.raft.applied)) }

func (m *Member) takeUpLocked(n int) {
	n = min(n, len(m.cluster.raft.applied))
	if m.applied >= n {
		return
	}
	for m.applied < n {
		e := m.cluster.raft.applied[m.applied]
		before := m.revLocked()
		m.applied++
		if m.lessor.primary && e.granted != nil {
			m.lessor.refreshLocked(e.granted, 0)
		}
		if m.lessor.primary && e.revoked != nil {
			m.lessor.forgetLocked(e.revoked)
		}
		if e.promote == m && m.lead == m && m.cluster.raft.leader == m {
			m.lessor.promoteLocked()
		}
		if e.rev != before {
			m.watches.notifyLocked(e.rev)
		}
		if e.origin == m {
			close(e.done)
		}
	}
	m.announceLocked()
}

// revLocked is the revision up to which the member has applied the log.
func (m *Member) revLocked() int64 { return m.cluster.raft.revAt(m.applied) }

func (m *Member) attach(l *Link) {
	m.linkMu.Lock()
	defer m.linkMu.Unlock()
	m.links = append(m.links, l)
	for _, held := range []bool{m.blackholed, m.frozen} {
		if held {
			l.addHold(0, true)
			l.addHold(1, true)
		}
	}
}

func (m *Member) allLinks() []*Link {
	m.linkMu.Lock()
	defer m.linkMu.Unlock()
	return slices.Clone(m.links)
}

func (m *Member) holdAll(state *bool, on bool) {
	m.linkMu.Lock()
	defer m.linkMu.Unlock()
	if *state == on {
		return
	}
	*state = on
	for _, l := range m.links {
		l.addHold(0, on)
		l.addHold(1, on)
	}
}

func (m *Member) hangUp() {
	for _, l := range m.allLinks() {
		l.hangUp()
	}
}
