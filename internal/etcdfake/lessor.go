// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

var (
	errLeaseNotFound = errors.New("lease not found")
	errNotPrimary    = errors.New("not a primary lessor")
)

// lessor times the leases of the member that leads, by that member's own clock. A renewal moves the expiry to now +
// term and goes through no log; every 500 ms what has expired is revoked through it. Guarded by the cluster's mutex.
type lessor struct {
	m       *Member
	primary bool
	reign   int // counts the times it became or ceased to be primary
	phase   time.Duration
	expiry  map[int64]time.Duration // by the member's clock; only while primary
	retry   map[int64]time.Duration // when a lease under revocation is looked at again
	scan    *event
}

func newLessor(m *Member) lessor {
	return lessor{m: m, phase: time.Duration(m.cluster.rng.Int64N(int64(scanInterval)))}
}

// promoteLocked gives every lease its full term and one election timeout: what the leader before promised is not known.
func (l *lessor) promoteLocked() {
	l.primary = true
	l.reign++
	l.expiry = make(map[int64]time.Duration)
	l.retry = make(map[int64]time.Duration)
	for _, le := range l.m.cluster.leases.known(l.m.applied) {
		l.refreshLocked(le, l.m.cluster.opts.ElectionTimeout)
	}
	l.m.announceLocked()
}

func (l *lessor) demoteLocked() {
	if !l.primary {
		return
	}
	l.primary = false
	l.reign++
	l.expiry, l.retry = nil, nil
	l.m.cluster.agenda.drop(l.scan)
	l.scan = nil
	l.m.announceLocked()
}

func (l *lessor) refreshLocked(le *lease, extend time.Duration) {
	l.expiry[le.id] = l.m.clock.now() + time.Duration(le.ttl)*time.Second + extend
	delete(l.retry, le.id)
	if t, ok := l.tick(l.expiry[le.id]); ok && (l.scan == nil || t.Before(l.scan.at)) {
		l.scanAtLocked(t)
	}
}

func (l *lessor) forgetLocked(le *lease) {
	delete(l.expiry, le.id)
	delete(l.retry, le.id)
}

// tick returns the true time of the first scan at or after an instant of the member's clock; false if it will not come.
func (l *lessor) tick(at time.Duration) (time.Time, bool) {
	rounds := max(0, at-l.phase+scanInterval-1) / scanInterval
	return l.m.clock.when(l.phase + rounds*scanInterval)
}

func (l *lessor) scanAtLocked(t time.Time) {
	l.m.cluster.agenda.drop(l.scan)
	l.scan = l.m.cluster.agenda.at(t, l.scanLocked)
}

// armLocked enters the first scan from an instant on that can find something.
func (l *lessor) armLocked(from time.Duration) {
	l.m.cluster.agenda.drop(l.scan)
	l.scan = nil
	first, found := time.Duration(0), false
	for id, at := range l.expiry {
		if at = max(at, l.retry[id], from); !found || at < first {
			first, found = at, true
		}
	}
	if t, ok := l.tick(first); found && ok {
		l.scanAtLocked(t)
	}
}

func (l *lessor) scanLocked() {
	l.scan = nil
	if !l.primary || l.m.paused {
		return
	}
	c, now := l.m.cluster, l.m.clock.now()
	var expired []int64
	for id, at := range l.expiry {
		if at <= now && l.retry[id] <= now {
			expired = append(expired, id)
		}
	}
	slices.SortFunc(expired, func(a, b int64) int { return cmp.Or(cmp.Compare(l.expiry[a], l.expiry[b]), cmp.Compare(a, b)) })
	expired = expired[:min(len(expired), revokesPerScan)]
	for _, id := range expired {
		l.retry[id] = now + revokeRetry
	}
	for _, id := range expired {
		// A leader cut off from its quorum proposes in vain.
		if c.reachesLeaderLocked(l.m) && l.m.lead == l.m {
			c.seen.expired++
			c.enqueueLocked(c.revokeEntry(id), l.m)
		}
	}
	if l.primary {
		l.armLocked(now + 1)
	}
}

// renew answers a renewal at this member, or says that another has to.
func (l *lessor) renew(ctx context.Context, id int64) (ttl int64, err error) {
	c := l.m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !l.primary {
		return -1, errNotPrimary
	}
	le := c.leases.as(id, l.m.applied)
	if le == nil {
		return -1, errLeaseNotFound
	}
	reign := l.reign
	if l.expiry[id] <= l.m.clock.now() {
		// It may be about to be revoked, or under revocation: the outcome of that is the answer.
		for {
			switch {
			case le.revoked != 0 && le.revoked <= l.m.applied:
				return -1, errLeaseNotFound
			case l.reign != reign:
				return -1, errNotPrimary
			}
			if err := l.m.waitLocked(ctx); err != nil {
				return -1, err
			}
		}
	}
	if stall := c.opts.Lease.RenewStall; stall > 0 {
		c.mu.Unlock()
		err := sleep(ctx, stall)
		c.mu.Lock()
		if err != nil {
			return -1, err
		}
	}
	exists := c.leases.as(id, l.m.applied) != nil
	if !exists && !c.opts.Lease.NoRecheck {
		return -1, errLeaseNotFound
	}
	if exists && l.primary {
		l.refreshLocked(le, 0)
	}
	return le.ttl, nil
}
