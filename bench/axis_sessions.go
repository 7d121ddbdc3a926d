// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/internal/clock"
)

// sessionsAxis keeps many sessions of one etcd client alive: what they weigh, and what their renewals cost on both sides.
func sessionsAxis(ctx context.Context, l *lab) error {
	return errors.Join(l.sessionsOnOne(ctx), l.sessionsOnThree(ctx))
}

// sessionsTTL is the term of the sessions.
func (l *lab) sessionsTTL() time.Duration { return l.brief(12 * time.Second) }

// sessionsFor is how long they are watched.
func (l *lab) sessionsFor() time.Duration {
	if l.full {
		return 5 * l.sessionsTTL()
	}
	return l.sessionsTTL()
}

func (l *lab) sessionsOnOne(ctx context.Context) error {
	n := l.sized(10_000)
	t, err := l.turns(ctx, 1, pair, func(ctx context.Context, s subject, _ int) (reading, error) {
		return l.keepAlive(ctx, s, n, 1, anywhere)
	})
	if err != nil {
		return err
	}
	l.rows(fmt.Sprintf("%d sessions, TTL %v, %v, one member", n, l.sessionsTTL(), l.sessionsFor()), t,
		metric{"alive", "alive at the end", report.Count, report.AtLeast(float64(n), report.Absolute)},
		metric{"renewals", "renewals", report.PerSecond, no},
		metric{"goroutines", "goroutines per 1,000 sessions", report.Count, no},
		metric{"grown", "goroutines more at the end", report.Count, report.AtMost(8, report.Absolute)},
		metric{"live", "heap and stacks per session", report.Bytes, report.AtMost(0.25, report.Theirs)},
		metric{"resident", "resident memory per session", report.Bytes, no},
		metric{"client", "client CPU", report.Cores, report.AtMost(1, report.Theirs)},
		metric{"server", "server CPU", report.Cores, no})
	return nil
}

// place says which members of a cluster a client is told about.
type place string

const (
	anywhere   place = "any member"
	atLeader   place = "the leader"
	atFollower place = "a follower"
)

// sessionsOnThree tells the cost of renewals at the leader from that at a follower, which forwards each. Leasehold is
// given all members, and chooses; the concurrency package renews over the member that its client is connected to.
func (l *lab) sessionsOnThree(ctx context.Context) error {
	n := l.sized(10_000)
	free, err := l.keepAlive(ctx, ours, n, 3, anywhere)
	if err != nil {
		return err
	}
	for _, at := range []place{atFollower, atLeader} {
		pinned, err := l.keepAlive(ctx, theirs, n, 3, at)
		if err != nil {
			return err
		}
		bar := no
		if at == atFollower {
			bar = report.AtMost(1.0/3, report.Theirs)
		}
		l.rows(fmt.Sprintf("three members, concurrency connected to %s", at), taken{ours: {free}, theirs: {pinned}},
			metric{"server", "server CPU", report.Cores, bar},
			metric{"client", "client CPU", report.Cores, no},
			metric{"renewals", "renewals", report.PerSecond, no},
			metric{"alive", "alive at the end", report.Count, no})
	}
	return nil
}

// endpoints are where a client finds what it is told about.
func (p place) endpoints(ctx context.Context, cluster *etcd.Cluster) (_ []string, err error) {
	if p == anywhere {
		return cluster.Endpoints, nil
	}
	client, err := dial(ctx, cluster.Endpoints)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	leader, err := cluster.Leader(ctx, client)
	if p == atFollower {
		leader = (leader + 1) % len(cluster.Endpoints)
	}
	return cluster.Endpoints[leader : leader+1], err
}

// keepAlive opens sessions in a process of their own and watches them for a while. Process and cluster are killed then:
// to close thousands of sessions in order would take longer than the rest.
func (l *lab) keepAlive(ctx context.Context, s subject, n, members int, at place) (_ reading, err error) {
	cluster, err := l.cluster(ctx, func(o *etcd.Options) { o.Members = members })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	endpoints, err := at.endpoints(ctx, cluster)
	if err != nil {
		return nil, err
	}
	h, err := startHolder(holderArgs{Subject: s, Endpoints: endpoints, Prefix: newPrefix(), TTL: l.sessionsTTL(), Sessions: n, Over: l.sessionsTTL() / 3})
	if err != nil {
		return nil, err
	}
	defer h.Kill()
	before, err := h.weigh()
	if err != nil {
		return nil, err
	}
	if err := h.open(); err != nil {
		return nil, err
	}
	if err := clock.Wait(ctx, time.Second); err != nil {
		return nil, err
	}
	type state struct {
		holding
		server, client time.Duration
		goroutines     int
		at             time.Time
	}
	look := func() (st state, err error) {
		if st.holding, err = h.state(); err != nil {
			return st, err
		}
		u, err := h.Usage()
		if err != nil {
			return st, err
		}
		server, err := cluster.Usage()
		if err != nil {
			return st, err
		}
		st.client, st.goroutines, st.server, st.at = u.CPU(), u.Goroutines, server.CPU(), time.Now()
		return st, nil
	}
	first, err := look()
	if err != nil {
		return nil, err
	}
	if err := clock.Wait(ctx, l.sessionsFor()); err != nil {
		return nil, err
	}
	last, err := look()
	if err != nil {
		return nil, err
	}
	after, err := h.weigh()
	if err != nil {
		return nil, err
	}
	seconds := last.at.Sub(first.at).Seconds()
	return reading{
		"alive":      float64(last.Alive),
		"renewals":   float64(last.Keepalives-first.Keepalives) / seconds,
		"goroutines": float64(last.goroutines-before.Goroutines) / float64(n) * 1000,
		"grown":      float64(last.goroutines - first.goroutines),
		"live":       float64(after.Live-before.Live) / float64(n),
		"resident":   float64(after.Resident-before.Resident) / float64(n),
		"client":     (last.client - first.client).Seconds() / seconds,
		"server":     (last.server - first.server).Seconds() / seconds,
	}, nil
}
