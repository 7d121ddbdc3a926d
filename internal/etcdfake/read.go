// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"bytes"
	"cmp"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// read answers a range request as etcd's mvcc store and its txn package together do, oddities included: a count
// ignores filters and limit, and a read of keys only leaves out the lease unless it sorts by value.
func (v view) read(r *pb.RangeRequest) (*pb.RangeResponse, error) {
	current := v.rev()
	at := r.Revision
	switch {
	case at > current:
		return nil, rpctypes.ErrGRPCFutureRev
	case at <= 0:
		at = current
	}
	if r.Revision > 0 && at < v.s.compacted { // the present can be read, also at a member that lags behind a compaction
		return nil, rpctypes.ErrGRPCCompacted
	}
	kvs := v.s.scan(spanOf(r.Key, r.RangeEnd), at)
	resp := &pb.RangeResponse{Header: header(current), Count: int64(len(kvs))}
	if r.CountOnly {
		return resp, nil
	}
	kvs = slices.DeleteFunc(kvs, func(kv *mvccpb.KeyValue) bool { return filtered(r, kv) })
	sortKVs(r, kvs)
	if r.Limit > 0 && int64(len(kvs)) > r.Limit {
		kvs = kvs[:r.Limit]
		resp.More = true
	}
	if r.KeysOnly {
		kvs = withoutValues(kvs, r.SortTarget == pb.RangeRequest_VALUE)
	}
	resp.Kvs = kvs
	return resp, nil
}

func filtered(r *pb.RangeRequest, kv *mvccpb.KeyValue) bool {
	return r.MaxModRevision != 0 && kv.ModRevision > r.MaxModRevision ||
		r.MinModRevision != 0 && kv.ModRevision < r.MinModRevision ||
		r.MaxCreateRevision != 0 && kv.CreateRevision > r.MaxCreateRevision ||
		r.MinCreateRevision != 0 && kv.CreateRevision < r.MinCreateRevision
}

func sortKVs(r *pb.RangeRequest, kvs []*mvccpb.KeyValue) {
	order := r.SortOrder
	if r.SortTarget != pb.RangeRequest_KEY && order == pb.RangeRequest_NONE {
		order = pb.RangeRequest_ASCEND
	}
	if order == pb.RangeRequest_NONE {
		return
	}
	slices.SortStableFunc(kvs, func(a, b *mvccpb.KeyValue) int {
		if order == pb.RangeRequest_DESCEND {
			a, b = b, a
		}
		switch r.SortTarget {
		case pb.RangeRequest_VERSION:
			return cmp.Compare(a.Version, b.Version)
		case pb.RangeRequest_CREATE:
			return cmp.Compare(a.CreateRevision, b.CreateRevision)
		case pb.RangeRequest_MOD:
			return cmp.Compare(a.ModRevision, b.ModRevision)
		case pb.RangeRequest_VALUE:
			return bytes.Compare(a.Value, b.Value)
		default:
			return bytes.Compare(a.Key, b.Key)
		}
	})
}

func withoutValues(kvs []*mvccpb.KeyValue, withLease bool) []*mvccpb.KeyValue {
	out := make([]*mvccpb.KeyValue, len(kvs))
	for i, kv := range kvs {
		out[i] = &mvccpb.KeyValue{
			Key: kv.Key, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision, Version: kv.Version,
		}
		if withLease {
			out[i].Lease = kv.Lease
		}
	}
	return out
}

// holds evaluates the compares of a transaction. Over a range every key must pass; over no key at all the compare
// meets a key-value of zeroes, except that a value never equals, nor differs from, one that is missing.
func (v view) holds(compares []*pb.Compare) bool {
	for _, c := range compares {
		kvs := v.s.scan(spanOf(c.Key, c.RangeEnd), v.rev())
		if len(kvs) == 0 {
			if c.Target == pb.Compare_VALUE {
				return false
			}
			kvs = []*mvccpb.KeyValue{{}}
		}
		for _, kv := range kvs {
			if !passes(c, kv) {
				return false
			}
		}
	}
	return true
}

func passes(c *pb.Compare, kv *mvccpb.KeyValue) bool {
	var result int
	switch c.Target {
	case pb.Compare_VALUE:
		result = bytes.Compare(kv.Value, c.GetValue())
	case pb.Compare_CREATE:
		result = cmp.Compare(kv.CreateRevision, c.GetCreateRevision())
	case pb.Compare_MOD:
		result = cmp.Compare(kv.ModRevision, c.GetModRevision())
	case pb.Compare_VERSION:
		result = cmp.Compare(kv.Version, c.GetVersion())
	case pb.Compare_LEASE:
		result = cmp.Compare(kv.Lease, c.GetLease())
	}
	switch c.Result {
	case pb.Compare_EQUAL:
		return result == 0
	case pb.Compare_NOT_EQUAL:
		return result != 0
	case pb.Compare_GREATER:
		return result > 0
	case pb.Compare_LESS:
		return result < 0
	}
	return true
}
