// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Renewal is one renewal of a lease that reached a member.
type Renewal struct {
	Lease    int64
	Member   int
	Host     string
	Arrived  time.Time     // true time, after the hooks
	Answered time.Time     // zero while it is under way
	TTL      time.Duration // of the answer; 0 if the lease was not found
	Err      error         // that ended the stream instead of an answer
}

// record is what the cluster has seen. Guarded by the cluster's mutex.
type record struct {
	renewals []Renewal
	expired  int
}

func (r *record) arrived(c *Cluster, n Renewal) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n.Arrived = time.Now()
	r.renewals = append(r.renewals, n)
	return len(r.renewals) - 1
}

func (r *record) answered(c *Cluster, i int, ttl int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &r.renewals[i]
	n.Answered, n.TTL, n.Err = time.Now(), max(0, time.Duration(ttl)*time.Second), err
}

// Renewals returns every renewal that reached a member, in the order of arrival; of one lease, or of all if id is 0.
func (c *Cluster) Renewals(id clientv3.LeaseID) []Renewal {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Renewal
	for _, n := range c.seen.renewals {
		if id == 0 || n.Lease == int64(id) {
			out = append(out, n)
		}
	}
	return out
}

// Expirations returns how many revocations of expired leases leaders have proposed.
func (c *Cluster) Expirations() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen.expired
}

// Revision returns the revision of the store.
func (c *Cluster) Revision() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.rev
}

// Keys returns the key-values with a prefix as they are now, oldest create revision first: of a lock's line, the
// holder comes first. They are shared: do not change them.
func (c *Cluster) Keys(prefix string) []*mvccpb.KeyValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.keysLocked(prefix)
}

func (c *Cluster) keysLocked(prefix string) []*mvccpb.KeyValue {
	kvs := c.store.scan(prefixSpan(prefix), c.store.rev)
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int { return cmp.Compare(a.CreateRevision, b.CreateRevision) })
	return kvs
}

// Leases returns the ids of the leases that exist now, in order.
func (c *Cluster) Leases() []clientv3.LeaseID {
	c.mu.Lock()
	defer c.mu.Unlock()
	var ids []clientv3.LeaseID
	for _, id := range slices.Sorted(maps.Keys(c.leases.alive)) {
		ids = append(ids, clientv3.LeaseID(id))
	}
	return ids
}

// LeaseExpiry returns the true time at which the leader will find a lease expired unless it is renewed: its
// revocation follows at the next scan. It reports false if the lease does not exist, if nobody leads, or if the
// leader's clock stands still.
func (c *Cluster) LeaseExpiry(id clientv3.LeaseID) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leaseExpiryLocked(int64(id))
}

func (c *Cluster) leaseExpiryLocked(id int64) (time.Time, bool) {
	l := &c.raft.leader.lessor
	at, ok := l.expiry[id]
	if !ok || !l.primary || c.leases.alive[id] == nil {
		return time.Time{}, false
	}
	return l.m.clock.when(at)
}

// Change is one applied revision, as an observer is shown it.
type Change struct {
	Revision int64
	At       time.Time       // true time
	Events   []*mvccpb.Event // shared: do not change them

	cluster *Cluster
}

// Keys returns the key-values with a prefix right after the change, oldest create revision first.
func (c Change) Keys(prefix string) []*mvccpb.KeyValue { return c.cluster.keysLocked(prefix) }

// LeaseExpiry is Cluster.LeaseExpiry right after the change.
func (c Change) LeaseExpiry(id clientv3.LeaseID) (time.Time, bool) {
	return c.cluster.leaseExpiryLocked(int64(id))
}

// OnChange adds an observer that is called at each revision, when it is applied and before anybody can learn of it.
// It runs under the cluster's mutex: it may use the Change until it returns, and everything else that does not call
// the cluster, nor wait for who does.
func (c *Cluster) OnChange(f func(Change)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observers = append(c.observers, f)
}

func (c *Cluster) notifyLocked() {
	ch := Change{Revision: c.store.rev, At: time.Now(), Events: c.store.eventsOf(c.store.rev), cluster: c}
	for _, f := range c.observers {
		f(ch)
	}
}
