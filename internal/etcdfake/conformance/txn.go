// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// holds evaluates compares.
func (e *env) holds(cmps ...clientv3.Cmp) bool {
	e.Helper()
	return e.txn(cmps, nil, nil).Succeeded
}

func cmps(c ...clientv3.Cmp) []clientv3.Cmp { return c }

func ops(o ...clientv3.Op) []clientv3.Op { return o }

var txnBehaviours = []behaviour{
	{"ComparesOfAMissingKeyMeetZeroes", func(e *env) {
		k := e.key("none")
		same(e, "create = 0", e.holds(clientv3.Compare(clientv3.CreateRevision(k), "=", 0)), true)
		same(e, "mod = 0", e.holds(clientv3.Compare(clientv3.ModRevision(k), "=", 0)), true)
		same(e, "version = 0", e.holds(clientv3.Compare(clientv3.Version(k), "=", 0)), true)
		same(e, "lease = 0", e.holds(clientv3.Compare(clientv3.LeaseValue(k), "=", 0)), true)
		same(e, "create > 0", e.holds(clientv3.Compare(clientv3.CreateRevision(k), ">", 0)), false)
		same(e, "value = empty", e.holds(clientv3.Compare(clientv3.Value(k), "=", "")), false)
		same(e, "value != x", e.holds(clientv3.Compare(clientv3.Value(k), "!=", "x")), false)
	}},
	{"ComparesOverAPrefixWithoutKeysMeetZeroes", func(e *env) {
		p := e.key("line/")
		nobody := clientv3.Compare(clientv3.CreateRevision(p).WithPrefix(), "=", 0)
		same(e, "nobody", e.holds(nobody), true)
		same(e, "version", e.holds(clientv3.Compare(clientv3.Version(p).WithPrefix(), "=", 0)), true)
		same(e, "value", e.holds(clientv3.Compare(clientv3.Value(p).WithPrefix(), "=", "")), false)
		e.put("line/a", "")
		same(e, "somebody", e.holds(nobody), false)
		e.delete("line/a")
		same(e, "nobody again", e.holds(nobody), true)
	}},
	{"ComparesOverAPrefixNeedEveryKey", func(e *env) {
		first := e.put("p/a", "v").Header.Revision
		e.put("p/b", "v")
		p := e.key("p/")
		same(e, "values", e.holds(clientv3.Compare(clientv3.Value(p).WithPrefix(), "=", "v")), true)
		same(e, "all later", e.holds(clientv3.Compare(clientv3.CreateRevision(p).WithPrefix(), ">", first)), false)
		same(e, "none before", e.holds(clientv3.Compare(clientv3.CreateRevision(p).WithPrefix(), ">", first-1)), true)
		half := clientv3.CreateRevision(e.key("p/b")).WithRange(e.key("p/c"))
		same(e, "half range", e.holds(clientv3.Compare(half, ">", first)), true)
		e.put("p/b", "w")
		same(e, "values", e.holds(clientv3.Compare(clientv3.Value(p).WithPrefix(), "=", "v")), false)
		same(e, "not equal", e.holds(clientv3.Compare(clientv3.Value(p).WithPrefix(), "!=", "x")), true)
	}},
	{"ComparesKnowFourRelations", func(e *env) {
		id := e.grant(60)
		rev := e.put("a", "m", clientv3.WithLease(id)).Header.Revision
		k := e.key("a")
		for _, c := range []struct {
			cmp  clientv3.Cmp
			want bool
		}{
			{clientv3.Compare(clientv3.Value(k), "<", "n"), true},
			{clientv3.Compare(clientv3.Value(k), ">", "n"), false},
			{clientv3.Compare(clientv3.ModRevision(k), "=", rev), true},
			{clientv3.Compare(clientv3.ModRevision(k), "!=", rev), false},
			{clientv3.Compare(clientv3.Version(k), "<", 2), true},
			{clientv3.Compare(clientv3.LeaseValue(k), "=", id), true},
			{clientv3.Compare(clientv3.LeaseValue(k), "=", 0), false},
		} {
			same(e, fmt.Sprint(&c.cmp), e.holds(c.cmp), c.want)
		}
		one, two := clientv3.Compare(clientv3.Version(k), "=", 1), clientv3.Compare(clientv3.Version(k), "=", 2)
		same(e, "one of two", e.holds(one, two), false)
	}},
	{"OneBranchRunsAndItsAnswersComeInOrder", func(e *env) {
		e.put("a", "1")
		r := e.txn(
			cmps(clientv3.Compare(clientv3.Version(e.key("a")), "=", 1)),
			ops(clientv3.OpGet(e.key("a")), clientv3.OpPut(e.key("b"), ""), clientv3.OpDelete(e.key("a"))),
			ops(clientv3.OpPut(e.key("else"), "")),
		)
		same(e, "succeeded", r.Succeeded, true)
		same(e, "answers", len(r.Responses), 3)
		same(e, "read", string(r.Responses[0].GetResponseRange().Kvs[0].Value), "1")
		same(e, "put", r.Responses[1].GetResponsePut() != nil, true)
		same(e, "deleted", r.Responses[2].GetResponseDeleteRange().Deleted, 1)
		same(e, "keys", e.names(e.all().Kvs), "b")
		r = e.txn(
			cmps(clientv3.Compare(clientv3.Version(e.key("a")), "=", 1)),
			ops(clientv3.OpPut(e.key("then"), "")), ops(clientv3.OpPut(e.key("else"), "")),
		)
		same(e, "succeeded", r.Succeeded, false)
		same(e, "keys", e.names(e.all().Kvs), "b else")
	}},
	{"ATransactionIsOneRevision", func(e *env) {
		rev := e.revision()
		r := e.txn(nil, ops(clientv3.OpPut(e.key("a"), ""), clientv3.OpPut(e.key("b"), "")), nil)
		same(e, "revision", r.Header.Revision, rev+1)
		for _, kv := range e.all().Kvs {
			same(e, "create revision", kv.CreateRevision, rev+1)
		}
		r = e.txn(nil, ops(clientv3.OpDelete(e.key("none"))), nil)
		same(e, "revision after nothing changed", r.Header.Revision, rev+1)
		r = e.txn(nil, ops(clientv3.OpGet(e.key("a"))), nil)
		same(e, "revision of a read", r.Header.Revision, rev+1)
	}},
	{"LaterOperationsSeeEarlierOnes", func(e *env) {
		rev := e.revision()
		r := e.txn(nil, ops(
			clientv3.OpGet(e.key(""), clientv3.WithPrefix()),
			clientv3.OpPut(e.key("a"), "1"),
			clientv3.OpGet(e.key(""), clientv3.WithPrefix()),
		), nil)
		same(e, "before", len(r.Responses[0].GetResponseRange().Kvs), 0)
		same(e, "revision before", r.Responses[0].GetResponseRange().Header.Revision, rev)
		after := r.Responses[2].GetResponseRange()
		same(e, "after", e.names(after.Kvs), "a")
		same(e, "revision after", after.Header.Revision, rev+1)
		same(e, "create revision", after.Kvs[0].CreateRevision, rev+1)
	}},
	{"NestedTransactionsCompareTheStateBefore", func(e *env) {
		r := e.txn(nil, ops(
			clientv3.OpPut(e.key("a"), ""),
			clientv3.OpTxn(
				cmps(clientv3.Compare(clientv3.CreateRevision(e.key("a")), "=", 0)),
				ops(clientv3.OpPut(e.key("missed"), ""), clientv3.OpGet(e.key("a"))),
				ops(clientv3.OpPut(e.key("seen"), "")),
			),
		), nil)
		nested := r.Responses[1].GetResponseTxn()
		same(e, "nested succeeded", nested.Succeeded, true)
		same(e, "nested read sees the put", len(nested.Responses[1].GetResponseRange().Kvs), 1)
		same(e, "keys", e.names(e.all().Kvs), "a missed")
	}},
	{"NestedTransactionsBranchEachForItself", func(e *env) {
		e.put("two", "")
		line := func(name string) clientv3.Op {
			return clientv3.OpTxn(
				cmps(clientv3.Compare(clientv3.CreateRevision(e.key(name)).WithPrefix(), "=", 0)),
				ops(clientv3.OpPut(e.key(name+"/me"), "")),
				ops(clientv3.OpGet(e.key(name), clientv3.WithFirstCreate()...)),
			)
		}
		r := e.txn(nil, ops(line("one"), line("two"), line("three")), nil)
		var got []bool
		for _, x := range r.Responses {
			got = append(got, x.GetResponseTxn().Succeeded)
		}
		same(e, "branches", fmt.Sprint(got), "[true false true]")
		same(e, "holder", e.names(r.Responses[1].GetResponseTxn().Responses[0].GetResponseRange().Kvs), "two")
		same(e, "keys", e.names(e.all().Kvs), "one/me three/me two")
	}},
	{"DeeperNestingWorks", func(e *env) {
		r := e.txn(nil, ops(clientv3.OpTxn(
			cmps(clientv3.Compare(clientv3.Version(e.key("a")), "=", 5)),
			nil,
			ops(clientv3.OpTxn(nil, ops(clientv3.OpPut(e.key("deep"), "")), nil), clientv3.OpPut(e.key("after"), "")),
		), clientv3.OpPut(e.key("last"), "")), nil)
		same(e, "answers", len(r.Responses[0].GetResponseTxn().Responses), 2)
		same(e, "keys", e.names(e.all().Kvs), "after deep last")
	}},
	{"OverlappingWritesAreRefused", func(e *env) {
		put := func(k string) clientv3.Op { return clientv3.OpPut(e.key(k), "") }
		nested := func(then, otherwise []clientv3.Op) clientv3.Op { return clientv3.OpTxn(nil, then, otherwise) }
		for _, c := range []struct {
			name string
			then []clientv3.Op
			ok   bool
		}{
			{"two puts of a key", ops(put("a"), put("a")), false},
			{"put and delete", ops(put("a"), clientv3.OpDelete(e.key("a"))), false},
			{"put and delete of its range", ops(put("p/a"), clientv3.OpDelete(e.key("p/"), clientv3.WithPrefix())), false},
			{"put beside a deleted range", ops(put("q"), clientv3.OpDelete(e.key("p/"), clientv3.WithPrefix())), true},
			{"two deletes", ops(clientv3.OpDelete(e.key("a")), clientv3.OpDelete(e.key("a"))), true},
			{"puts in both branches", ops(nested(ops(put("b")), ops(put("b")))), true},
			{"nested put and outer put", ops(nested(ops(put("b")), nil), put("b")), false},
			{"nested put in two transactions", ops(nested(ops(put("b")), nil), nested(ops(put("b")), nil)), false},
			{"nested delete and outer put", ops(nested(ops(clientv3.OpDelete(e.key("b"))), nil), put("b")), false},
			{"outer delete and nested put", ops(clientv3.OpDelete(e.key("b")), nested(nil, ops(put("b")))), false},
		} {
			_, err := e.cli.Txn(e.ctx).Then(c.then...).Commit()
			if c.ok && err != nil {
				e.Errorf("%s: %v", c.name, err)
			}
			if !c.ok {
				fails(e, c.name, err, rpctypes.ErrDuplicateKey)
			}
		}
	}},
	{"OperationsAreBounded", func(e *env) {
		many := func(n int) []clientv3.Op {
			var all []clientv3.Op
			for i := range n {
				all = append(all, clientv3.OpPut(e.key(fmt.Sprint(i)), ""))
			}
			return all
		}
		if _, err := e.cli.Txn(e.ctx).Then(many(128)...).Commit(); err != nil {
			e.Errorf("128 operations: %v", err)
		}
		_, err := e.cli.Txn(e.ctx).Then(many(129)...).Commit()
		fails(e, "129 operations", err, rpctypes.ErrTooManyOps)
		if _, err := e.cli.Txn(e.ctx).Then(clientv3.OpTxn(nil, many(127), nil)).Commit(); err != nil {
			e.Errorf("1 and 127 nested: %v", err)
		}
		_, err = e.cli.Txn(e.ctx).Then(clientv3.OpTxn(nil, many(128), nil)).Commit()
		fails(e, "1 and 128 nested", err, rpctypes.ErrTooManyOps)
	}},
	{"WhatCannotBeDoneWritesNothing", func(e *env) {
		rev := e.revision()
		put := clientv3.OpPut(e.key("a"), "")
		leased := clientv3.OpPut(e.key("b"), "", clientv3.WithLease(999))
		_, err := e.cli.Txn(e.ctx).Then(put, leased).Commit()
		fails(e, "put under no lease", err, rpctypes.ErrLeaseNotFound)
		_, err = e.cli.Txn(e.ctx).Then(put, clientv3.OpTxn(nil, ops(leased), nil)).Commit()
		fails(e, "nested put under no lease", err, rpctypes.ErrLeaseNotFound)
		_, err = e.cli.Txn(e.ctx).Then(put, clientv3.OpPut(e.key("b"), "", clientv3.WithIgnoreValue())).Commit()
		fails(e, "value of nothing", err, rpctypes.ErrKeyNotFound)
		_, err = e.cli.Txn(e.ctx).Then(put, clientv3.OpGet(e.key("b"), clientv3.WithRev(rev+100))).Commit()
		fails(e, "read of the future", err, rpctypes.ErrFutureRev)
		r := e.txn(cmps(clientv3.Compare(clientv3.Version(e.key("a")), ">", 0)), ops(leased), nil)
		same(e, "the other branch is not looked at", r.Succeeded, false)
		same(e, "revision", e.revision(), rev)
	}},
	{"EmptyTransactionsOnlyCompare", func(e *env) {
		rev := e.revision()
		r := e.txn(nil, nil, nil)
		same(e, "succeeded", r.Succeeded, true)
		same(e, "revision", r.Header.Revision, rev)
	}},
	{"CompareWithoutAKeyIsRefused", func(e *env) {
		kv := pb.NewKVClient(e.cli.ActiveConnection())
		_, err := kv.Txn(e.ctx, &pb.TxnRequest{Compare: []*pb.Compare{{}}})
		fails(e, "compare", rpctypes.Error(err), rpctypes.ErrEmptyKey)
		_, err = kv.Txn(e.ctx, &pb.TxnRequest{Success: []*pb.RequestOp{{}}})
		fails(e, "empty operation", rpctypes.Error(err), rpctypes.ErrKeyNotFound)
	}},
}
