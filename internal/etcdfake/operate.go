// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// The methods in this file are an operator at work. Each is committed and applied at once, ahead of what is under way
// and whether or not there is a quorum.

// Put writes a key, under a lease unless that is 0, and returns the revision.
func (c *Cluster) Put(key, value string, lease clientv3.LeaseID) (int64, error) {
	return c.operate(&entry{}, func(w *write) error {
		if lease != 0 && c.leases.alive[int64(lease)] == nil {
			return fmt.Errorf("put %q: %w", key, errLeaseNotFound)
		}
		w.put(key, []byte(value), int64(lease))
		return nil
	})
}

// Delete deletes a key if there is one, and returns the revision.
func (c *Cluster) Delete(key string) (int64, error) {
	return c.operate(&entry{}, func(w *write) error {
		w.delete(span{key: key, single: true})
		return nil
	})
}

// DeletePrefix deletes all keys with a prefix at one revision, and returns it.
func (c *Cluster) DeletePrefix(prefix string) (int64, error) {
	return c.operate(&entry{}, func(w *write) error {
		w.delete(prefixSpan(prefix))
		return nil
	})
}

// Revoke revokes a lease, and returns the revision.
func (c *Cluster) Revoke(id clientv3.LeaseID) (int64, error) {
	return c.operate(c.revokeEntry(int64(id)), nil)
}

// Compact compacts the history up to a revision.
func (c *Cluster) Compact(rev int64) error {
	_, err := c.operate(&entry{change: func() (proto.Message, error) { return &pb.ResponseHeader{}, c.store.compact(rev) }}, nil)
	return err
}

func (c *Cluster) operate(e *entry, f func(*write) error) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f != nil {
		e.change = func() (proto.Message, error) {
			w := c.store.write(c.leases.attach)
			if err := f(w); err != nil {
				return nil, err
			}
			w.commit()
			return &pb.ResponseHeader{}, nil // nobody asked
		}
	}
	c.applyLocked(e)
	return e.rev, e.err
}

// SetNoSpace raises the alarm that a full disk raises: puts and grants fail until it is taken back.
func (c *Cluster) SetNoSpace(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noSpace = on
}

// SetClusterID changes the id in the headers of all answers from now on.
func (c *Cluster) SetClusterID(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusterID = id
}

// Replace puts an empty cluster with another id, and other member ids, behind the same endpoints. All connections are
// reset.
func (c *Cluster) Replace(clusterID uint64) {
	c.mu.Lock()
	c.clusterID = clusterID
	for _, m := range c.members {
		m.id += 1 << 32
	}
	c.restoreLocked(1, 0)
	c.mu.Unlock()
	c.resetConnections()
}

// RollBackTo restores the cluster from a backup taken when the revision was rev: what was written later is gone,
// leases that were revoked later are back with their full term, the raft term starts again, and the cluster's id
// stays. All connections are reset.
func (c *Cluster) RollBackTo(rev int64) error {
	c.mu.Lock()
	if rev < 1 || rev > c.store.rev {
		c.mu.Unlock()
		return fmt.Errorf("roll back to revision %d of %d", rev, c.store.rev)
	}
	n := len(c.raft.applied)
	for n > 0 && c.raft.applied[n-1].rev > rev {
		n--
	}
	c.restoreLocked(rev, n)
	c.mu.Unlock()
	c.resetConnections()
	return nil
}

// restoreLocked leaves what the first n entries of the log made.
func (c *Cluster) restoreLocked(rev int64, n int) {
	c.store.rollBack(rev)
	c.raft.applied = c.raft.applied[:n]
	c.raft.pending, c.raft.committed = nil, nil
	c.leases.rollBack(n, c.store)
	c.raft.term = 1
	for _, m := range c.members {
		m.applied = min(m.applied, n)
		m.lessor.demoteLocked()
		m.lead = nil
	}
	if lead := c.raft.leader; lead.connected() && c.quorumLocked() {
		c.electLocked(lead)
	} else {
		c.reconsiderLocked()
	}
}

func (c *Cluster) resetConnections() {
	for _, m := range c.members {
		m.ResetConnections()
	}
}
