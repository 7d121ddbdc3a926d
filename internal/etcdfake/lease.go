// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"maps"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

// leaseTable is the replicated part of leases: which exist, for how long they are granted, what is attached to them.
// When they expire is known to the leader alone, see lessor. Guarded by the cluster's mutex.
type leaseTable struct {
	alive map[int64]*lease
	gone  map[int64][]*lease // for members that have not heard yet
}

// lease is one grant of an id; a revoked id can be granted again.
type lease struct {
	id, ttl int64 // seconds
	keys    map[string]struct{}
	granted int // index of the log entry
	revoked int // index of the log entry; 0 while it exists
}

func (t *leaseTable) init() {
	t.alive = make(map[int64]*lease)
	t.gone = make(map[int64][]*lease)
}

// as returns the lease as a member knows it that has applied the log up to an index.
func (t *leaseTable) as(id int64, applied int) *lease {
	if l := t.alive[id]; l != nil && l.granted <= applied {
		return l
	}
	for _, l := range t.gone[id] {
		if l.granted <= applied && l.revoked > applied {
			return l
		}
	}
	return nil
}

// known returns all leases as such a member knows them, ordered by id.
func (t *leaseTable) known(applied int) []*lease {
	ids := make(map[int64]struct{})
	for id := range t.alive {
		ids[id] = struct{}{}
	}
	for id := range t.gone {
		ids[id] = struct{}{}
	}
	var ls []*lease
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		if l := t.as(id, applied); l != nil {
			ls = append(ls, l)
		}
	}
	return ls
}

// attach moves a key from one lease to another; 0 is none.
func (t *leaseTable) attach(key string, before, after int64) {
	if l := t.alive[before]; l != nil {
		delete(l.keys, key)
	}
	if l := t.alive[after]; l != nil {
		l.keys[key] = struct{}{}
	}
}

// rollBack forgets what entries after the index did; keys are then attached again as the store has them.
func (t *leaseTable) rollBack(applied int, s *store) {
	for id, l := range t.alive {
		if l.granted > applied {
			delete(t.alive, id)
		}
	}
	for id, ls := range t.gone {
		for _, l := range ls {
			if l.granted <= applied && l.revoked > applied {
				l.revoked = 0
				t.alive[id] = l
			}
		}
		t.gone[id] = slices.DeleteFunc(ls, func(l *lease) bool { return l.revoked == 0 || l.granted > applied })
	}
	for _, l := range t.alive {
		clear(l.keys)
	}
	for _, key := range s.live {
		t.attach(key, 0, s.at(key, s.rev).Lease)
	}
}

// grantEntry grants a lease; an id of 0 is drawn.
func (c *Cluster) grantEntry(id, ttl int64) *entry {
	e := &entry{}
	e.change = func() (proto.Message, error) {
		switch {
		case ttl > maxLeaseTTL:
			return nil, rpctypes.ErrGRPCLeaseTTLTooLarge
		case c.noSpace:
			return nil, rpctypes.ErrGRPCNoSpace
		case c.leases.alive[id] != nil:
			return nil, rpctypes.ErrGRPCLeaseExist
		}
		for id == 0 {
			id = c.rng.Int64()
		}
		l := &lease{id: id, ttl: max(ttl, c.opts.minTTL()), keys: make(map[string]struct{}), granted: len(c.raft.applied) + 1}
		c.leases.alive[id] = l
		e.granted = l
		return &pb.LeaseGrantResponse{Header: header(c.store.rev), ID: id, TTL: l.ttl}, nil
	}
	return e
}

// revokeEntry revokes a lease and deletes its keys, ordered by name, at one revision.
func (c *Cluster) revokeEntry(id int64) *entry {
	e := &entry{}
	e.change = func() (proto.Message, error) {
		l := c.leases.alive[id]
		if l == nil {
			return nil, rpctypes.ErrGRPCLeaseNotFound
		}
		w := c.store.write(c.leases.attach)
		for _, key := range slices.Sorted(maps.Keys(l.keys)) {
			w.delete(span{key: key, single: true})
		}
		w.commit()
		delete(c.leases.alive, id)
		l.revoked = len(c.raft.applied) + 1
		c.leases.gone[id] = append(c.leases.gone[id], l)
		e.revoked = l
		return &pb.LeaseRevokeResponse{Header: header(c.store.rev)}, nil
	}
	return e
}
