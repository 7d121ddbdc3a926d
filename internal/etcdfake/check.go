// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// The checks in this file are those that a member makes before a request goes anywhere else.

func checkRange(r *pb.RangeRequest) error {
	if len(r.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	if _, ok := pb.RangeRequest_SortOrder_name[int32(r.SortOrder)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	if _, ok := pb.RangeRequest_SortTarget_name[int32(r.SortTarget)]; !ok {
		return rpctypes.ErrGRPCInvalidSortOption
	}
	return nil
}

func checkPut(r *pb.PutRequest) error {
	switch {
	case len(r.GetKey()) == 0:
		return rpctypes.ErrGRPCEmptyKey
	case r.IgnoreValue && len(r.Value) != 0:
		return rpctypes.ErrGRPCValueProvided
	case r.IgnoreLease && r.Lease != 0:
		return rpctypes.ErrGRPCLeaseProvided
	}
	return nil
}

func checkDelete(r *pb.DeleteRangeRequest) error {
	if len(r.GetKey()) == 0 {
		return rpctypes.ErrGRPCEmptyKey
	}
	return nil
}

// checkTxn bounds the operations: the longest of compares, success and failure counts, and a nested transaction has
// what is left.
func checkTxn(r *pb.TxnRequest, limit int) error {
	n := max(len(r.GetCompare()), len(r.GetSuccess()), len(r.GetFailure()))
	if n > limit {
		return rpctypes.ErrGRPCTooManyOps
	}
	for _, c := range r.GetCompare() {
		if len(c.Key) == 0 {
			return rpctypes.ErrGRPCEmptyKey
		}
	}
	for _, ops := range [][]*pb.RequestOp{r.GetSuccess(), r.GetFailure()} {
		for _, op := range ops {
			if err := checkOp(op, limit-n); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkOp(op *pb.RequestOp, limit int) error {
	switch o := op.Request.(type) {
	case *pb.RequestOp_RequestRange:
		return checkRange(o.RequestRange)
	case *pb.RequestOp_RequestPut:
		return checkPut(o.RequestPut)
	case *pb.RequestOp_RequestDeleteRange:
		return checkDelete(o.RequestDeleteRange)
	case *pb.RequestOp_RequestTxn:
		return checkTxn(o.RequestTxn, limit)
	default:
		return rpctypes.ErrGRPCKeyNotFound
	}
}

// checkOverlaps refuses a branch that puts a key twice, or puts a key that it also deletes. Of a nested transaction
// only one branch runs, so its branches may put the same key. It returns what the branch puts and deletes.
func checkOverlaps(ops []*pb.RequestOp) (puts map[string]bool, deletes []span, err error) {
	puts = make(map[string]bool)
	for _, op := range ops {
		if d := op.GetRequestDeleteRange(); d != nil {
			deletes = append(deletes, spanOf(d.Key, d.RangeEnd))
		}
	}
	clashes := func(key string) bool {
		for _, d := range deletes {
			if d.contains(key) {
				return true
			}
		}
		return false
	}
	for _, op := range ops {
		t := op.GetRequestTxn()
		if t == nil {
			continue
		}
		thenPuts, thenDeletes, err := checkOverlaps(t.Success)
		if err != nil {
			return nil, nil, err
		}
		elsePuts, elseDeletes, err := checkOverlaps(t.Failure)
		if err != nil {
			return nil, nil, err
		}
		for key := range thenPuts {
			if puts[key] || clashes(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[key] = true
		}
		for key := range elsePuts {
			if puts[key] && !thenPuts[key] || clashes(key) {
				return nil, nil, rpctypes.ErrGRPCDuplicateKey
			}
			puts[key] = true
		}
		deletes = append(append(deletes, thenDeletes...), elseDeletes...)
	}
	for _, op := range ops {
		p := op.GetRequestPut()
		if p == nil {
			continue
		}
		key := string(p.Key)
		if puts[key] || clashes(key) {
			return nil, nil, rpctypes.ErrGRPCDuplicateKey
		}
		puts[key] = true
	}
	return puts, deletes, nil
}

// readOnly tells whether a transaction can be answered without a commit. Any nested transaction counts as a write, as
// in etcd.
func readOnly(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if op.GetRequestRange() == nil {
				return false
			}
		}
	}
	return true
}

// serializable tells whether a read-only transaction needs no leader: all its reads must say so.
func serializable(r *pb.TxnRequest) bool {
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			if !op.GetRequestRange().GetSerializable() {
				return false
			}
		}
	}
	return true
}

// putsIn counts the puts of a transaction, nested ones included: only they need space.
func putsIn(r *pb.TxnRequest) int {
	n := 0
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			switch o := op.Request.(type) {
			case *pb.RequestOp_RequestPut:
				n++
			case *pb.RequestOp_RequestTxn:
				n += putsIn(o.RequestTxn)
			}
		}
	}
	return n
}
