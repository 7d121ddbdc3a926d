// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var kvBehaviours = []behaviour{
	{"EachWriteTakesOneRevision", func(e *env) {
		rev := e.revision()
		same(e, "put", e.put("a", "1").Header.Revision, rev+1)
		same(e, "put again", e.put("a", "2").Header.Revision, rev+2)
		same(e, "delete", e.delete("a").Header.Revision, rev+3)
		same(e, "delete of nothing", e.delete("a").Header.Revision, rev+3)
		same(e, "read", e.revision(), rev+3)
	}},
	{"AKeyKeepsItsCreateRevisionUntilItIsDeleted", func(e *env) {
		created := e.put("a", "1").Header.Revision
		e.put("b", "")
		modified := e.put("a", "2").Header.Revision
		kv := e.get("a").Kvs[0]
		same(e, "create revision", kv.CreateRevision, created)
		same(e, "mod revision", kv.ModRevision, modified)
		same(e, "version", kv.Version, 2)
		same(e, "value", string(kv.Value), "2")
		e.delete("a")
		again := e.put("a", "3").Header.Revision
		kv = e.get("a").Kvs[0]
		same(e, "create revision after a delete", kv.CreateRevision, again)
		same(e, "version after a delete", kv.Version, 1)
	}},
	{"HeadersNameClusterMemberAndTerm", func(e *env) {
		h := e.put("a", "").Header
		if h.ClusterId == 0 || h.MemberId == 0 || h.RaftTerm == 0 {
			e.Errorf("header %v lacks something", h)
		}
		g := e.get("a").Header
		same(e, "cluster id", g.ClusterId, h.ClusterId)
	}},
	{"ReadsOfThePastSeeThePast", func(e *env) {
		one := e.put("a", "1").Header.Revision
		e.put("a", "2")
		gone := e.delete("a").Header.Revision
		e.put("a", "3")
		r := e.get("a", clientv3.WithRev(one))
		same(e, "value", string(r.Kvs[0].Value), "1")
		same(e, "header revision", r.Header.Revision, gone+1)
		same(e, "keys while deleted", len(e.get("a", clientv3.WithRev(gone)).Kvs), 0)
		same(e, "keys before the first", len(e.all(clientv3.WithRev(one-1)).Kvs), 0)
		_, err := e.cli.Get(e.ctx, e.key("a"), clientv3.WithRev(gone+100))
		fails(e, "read of the future", err, rpctypes.ErrFutureRev)
	}},
	{"RangesHaveThreeForms", func(e *env) {
		for _, k := range []string{"a", "b", "ba", "c"} {
			e.put(k, "")
		}
		same(e, "one key", e.names(e.get("b").Kvs), "b")
		same(e, "prefix", e.names(e.get("b", clientv3.WithPrefix()).Kvs), "b ba")
		same(e, "half open", e.names(e.get("a", clientv3.WithRange(e.key("c"))).Kvs), "a b ba")
		same(e, "backwards", e.names(e.get("c", clientv3.WithRange(e.key("a"))).Kvs), "")
		open := e.get("ba", clientv3.WithFromKey(), clientv3.WithLimit(2)).Kvs
		same(e, "from key", e.names(open), "ba c")
	}},
	{"SortsAndLimits", func(e *env) {
		e.put("c", "1")
		e.put("a", "3")
		e.put("b", "2")
		e.put("c", "1")
		by := func(target clientv3.SortTarget, order clientv3.SortOrder) string {
			return e.names(e.all(clientv3.WithSort(target, order)).Kvs)
		}
		same(e, "by create revision", by(clientv3.SortByCreateRevision, clientv3.SortAscend), "c a b")
		same(e, "by create revision, descending", by(clientv3.SortByCreateRevision, clientv3.SortDescend), "b a c")
		same(e, "by create revision, no order", by(clientv3.SortByCreateRevision, clientv3.SortNone), "c a b")
		same(e, "by mod revision", by(clientv3.SortByModRevision, clientv3.SortAscend), "a b c")
		same(e, "by value", by(clientv3.SortByValue, clientv3.SortAscend), "c b a")
		same(e, "by version, descending", by(clientv3.SortByVersion, clientv3.SortDescend)[:1], "c")
		same(e, "by key, descending", by(clientv3.SortByKey, clientv3.SortDescend), "c b a")
		r := e.all(clientv3.WithLimit(2))
		same(e, "limited", e.names(r.Kvs), "a b")
		same(e, "more", r.More, true)
		same(e, "count", r.Count, 3)
		r = e.all(clientv3.WithLimit(3))
		same(e, "more of all", r.More, false)
		first := e.all(clientv3.WithFirstCreate()...)
		same(e, "first create", e.names(first.Kvs), "c")
		last := e.all(clientv3.WithLastCreate()...)
		same(e, "last create", e.names(last.Kvs), "b")
	}},
	{"RevisionFiltersLeaveTheCount", func(e *env) {
		a := e.put("a", "").Header.Revision
		b := e.put("b", "").Header.Revision
		c := e.put("c", "").Header.Revision
		e.put("a", "2")
		r := e.all(clientv3.WithMinCreateRev(b))
		same(e, "min create", e.names(r.Kvs), "b c")
		same(e, "count", r.Count, 3)
		same(e, "max create", e.names(e.all(clientv3.WithMaxCreateRev(b)).Kvs), "a b")
		same(e, "min mod", e.names(e.all(clientv3.WithMinModRev(c)).Kvs), "a c")
		same(e, "max mod", e.names(e.all(clientv3.WithMaxModRev(b)).Kvs), "b")
		latest := clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortDescend)
		r = e.all(clientv3.WithMaxCreateRev(b), clientv3.WithLimit(1), latest)
		same(e, "the last before c", e.names(r.Kvs), "b")
		same(e, "more", r.More, true)
		r = e.all(clientv3.WithMaxCreateRev(a - 1))
		same(e, "none", len(r.Kvs), 0)
		same(e, "count of none", r.Count, 3)
	}},
	{"KeysOnlyLeavesOutValueAndLease", func(e *env) {
		id := e.grant(60)
		e.put("a", "v", clientv3.WithLease(id))
		kv := e.get("a", clientv3.WithKeysOnly()).Kvs[0]
		same(e, "value", len(kv.Value), 0)
		same(e, "lease", kv.Lease, 0)
		same(e, "version", kv.Version, 1)
		if kv.CreateRevision == 0 || kv.ModRevision == 0 {
			e.Errorf("%v lacks its revisions", kv)
		}
		kv = e.get("a", clientv3.WithKeysOnly(), clientv3.WithSort(clientv3.SortByValue, clientv3.SortAscend)).Kvs[0]
		same(e, "lease sorted by value", kv.Lease, int64(id))
		same(e, "value sorted by value", len(kv.Value), 0)
		kv = e.get("a").Kvs[0]
		same(e, "lease of a full read", kv.Lease, int64(id))
	}},
	{"CountOnlyCounts", func(e *env) {
		e.put("a", "")
		e.put("b", "")
		r := e.all(clientv3.WithCountOnly())
		same(e, "count", r.Count, 2)
		same(e, "keys", len(r.Kvs), 0)
		same(e, "count with a limit", e.all(clientv3.WithCountOnly(), clientv3.WithLimit(1)).Count, 2)
	}},
	{"PreviousKeyValuesComeWithWrites", func(e *env) {
		if prev := e.put("a", "1", clientv3.WithPrevKV()).PrevKv; prev != nil {
			e.Errorf("a new key had a previous %v", prev)
		}
		same(e, "put", string(e.put("a", "2", clientv3.WithPrevKV()).PrevKv.GetValue()), "1")
		r := e.delete("a", clientv3.WithPrevKV())
		same(e, "deleted", r.Deleted, 1)
		same(e, "delete", string(r.PrevKvs[0].Value), "2")
	}},
	{"DeletesCountAndShareARevision", func(e *env) {
		e.put("a", "")
		e.put("b", "")
		rev := e.revision()
		r := e.delete("", clientv3.WithPrefix())
		same(e, "deleted", r.Deleted, 2)
		same(e, "revision", r.Header.Revision, rev+1)
	}},
	{"PutsCanKeepValueOrLease", func(e *env) {
		id := e.grant(60)
		e.put("a", "v", clientv3.WithLease(id))
		e.put("a", "w", clientv3.WithIgnoreLease())
		same(e, "lease kept", e.get("a").Kvs[0].Lease, int64(id))
		e.put("a", "", clientv3.WithIgnoreValue())
		kv := e.get("a").Kvs[0]
		same(e, "value kept", string(kv.Value), "w")
		same(e, "lease not kept", kv.Lease, 0)
		_, err := e.cli.Put(e.ctx, e.key("none"), "", clientv3.WithIgnoreValue())
		fails(e, "value of nothing", err, rpctypes.ErrKeyNotFound)
		_, err = e.cli.Put(e.ctx, e.key("none"), "", clientv3.WithIgnoreLease())
		fails(e, "lease of nothing", err, rpctypes.ErrKeyNotFound)
		_, err = e.cli.Put(e.ctx, e.key("a"), "x", clientv3.WithIgnoreValue())
		fails(e, "value given", err, rpctypes.ErrValueProvided)
		_, err = e.cli.Put(e.ctx, e.key("a"), "x", clientv3.WithIgnoreLease(), clientv3.WithLease(id))
		fails(e, "lease given", err, rpctypes.ErrLeaseProvided)
	}},
	{"BadRequestsAreRefused", func(e *env) {
		kv := pb.NewKVClient(e.cli.ActiveConnection())
		_, err := kv.Range(e.ctx, &pb.RangeRequest{})
		fails(e, "range without a key", rpctypes.Error(err), rpctypes.ErrEmptyKey)
		_, err = kv.Put(e.ctx, &pb.PutRequest{})
		fails(e, "put without a key", rpctypes.Error(err), rpctypes.ErrEmptyKey)
		_, err = kv.DeleteRange(e.ctx, &pb.DeleteRangeRequest{})
		fails(e, "delete without a key", rpctypes.Error(err), rpctypes.ErrEmptyKey)
		_, err = kv.Range(e.ctx, &pb.RangeRequest{Key: []byte("a"), SortOrder: 7})
		fails(e, "order that does not exist", rpctypes.Error(err), rpctypes.ErrInvalidSortOption)
		_, err = e.cli.Put(e.ctx, e.key("a"), "", clientv3.WithLease(12345))
		fails(e, "put under no lease", err, rpctypes.ErrLeaseNotFound)
		same(e, "keys", len(e.all().Kvs), 0)
	}},
	{"LargeRequestsAreRefused", func(e *env) {
		const most = 3 << 19
		if _, err := e.cli.Put(e.ctx, e.key("a"), strings.Repeat("x", most-256)); err != nil {
			e.Errorf("just below the limit: %v", err)
		}
		_, err := e.cli.Put(e.ctx, e.key("a"), strings.Repeat("x", most))
		fails(e, "above the limit", err, rpctypes.ErrRequestTooLarge)
		_, err = e.cli.Txn(e.ctx).Then(clientv3.OpPut(e.key("a"), strings.Repeat("x", most))).Commit()
		fails(e, "transaction above the limit", err, rpctypes.ErrRequestTooLarge)
		e.delete("a")
	}},
	{"SerializableReadsAreAnswered", func(e *env) {
		e.put("a", "v")
		same(e, "value", string(e.get("a", clientv3.WithSerializable()).Kvs[0].Value), "v")
	}},
}
