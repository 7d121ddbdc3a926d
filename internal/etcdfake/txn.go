// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// branch is a transaction whose compares have been decided. All of them, nested ones included, are decided before the
// first operation runs, so none sees what the transaction itself writes.
type branch struct {
	succeeded bool
	ops       []*pb.RequestOp
	nested    map[*pb.RequestOp]*branch
}

func (v view) decide(r *pb.TxnRequest) *branch {
	b := &branch{succeeded: v.holds(r.Compare), ops: r.Success}
	if !b.succeeded {
		b.ops = r.Failure
	}
	for _, op := range b.ops {
		if t := op.GetRequestTxn(); t != nil {
			if b.nested == nil {
				b.nested = make(map[*pb.RequestOp]*branch)
			}
			b.nested[op] = v.decide(t)
		}
	}
	return b
}

// permits checks what can fail while nothing has been written yet.
func (v view) permits(b *branch, leaseExists func(int64) bool) error {
	for _, op := range b.ops {
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			if err := v.check(o.RequestRange.Revision); err != nil {
				return err
			}
		case *pb.RequestOp_RequestPut:
			if err := v.permitsPut(o.RequestPut, leaseExists); err != nil {
				return err
			}
		case *pb.RequestOp_RequestTxn:
			if err := v.permits(b.nested[op], leaseExists); err != nil {
				return err
			}
		}
	}
	return nil
}

func (v view) permitsPut(r *pb.PutRequest, leaseExists func(int64) bool) error {
	if r.Lease != 0 && !leaseExists(r.Lease) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if (r.IgnoreValue || r.IgnoreLease) && v.s.at(string(r.Key), v.rev()) == nil {
		return rpctypes.ErrGRPCKeyNotFound
	}
	return nil
}

// answerTxn answers a read-only transaction.
func (v view) answerTxn(r *pb.TxnRequest) (*pb.TxnResponse, error) {
	b := v.decide(r)
	if err := v.permits(b, nil); err != nil {
		return nil, err
	}
	resp := &pb.TxnResponse{Header: header(v.rev()), Succeeded: b.succeeded}
	for _, op := range b.ops {
		rr, err := v.read(op.GetRequestRange())
		if err != nil {
			return nil, err
		}
		resp.Responses = append(resp.Responses, &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: rr}})
	}
	return resp, nil
}

// run executes a permitted branch. Headers of nested answers are bare, as etcd leaves them.
func (w *write) run(b *branch) (*pb.TxnResponse, error) {
	resp := &pb.TxnResponse{Header: &pb.ResponseHeader{}, Succeeded: b.succeeded}
	for _, op := range b.ops {
		out := &pb.ResponseOp{}
		switch o := op.Request.(type) {
		case *pb.RequestOp_RequestRange:
			rr, err := w.view().read(o.RequestRange)
			if err != nil {
				return nil, err
			}
			out.Response = &pb.ResponseOp_ResponseRange{ResponseRange: rr}
		case *pb.RequestOp_RequestPut:
			out.Response = &pb.ResponseOp_ResponsePut{ResponsePut: w.runPut(o.RequestPut)}
		case *pb.RequestOp_RequestDeleteRange:
			out.Response = &pb.ResponseOp_ResponseDeleteRange{ResponseDeleteRange: w.runDelete(o.RequestDeleteRange)}
		case *pb.RequestOp_RequestTxn:
			tr, err := w.run(b.nested[op])
			if err != nil {
				return nil, err
			}
			out.Response = &pb.ResponseOp_ResponseTxn{ResponseTxn: tr}
		}
		resp.Responses = append(resp.Responses, out)
	}
	return resp, nil
}

func (w *write) runPut(r *pb.PutRequest) *pb.PutResponse {
	value, lease := r.Value, r.Lease
	var prev *mvccpb.KeyValue
	if r.IgnoreValue || r.IgnoreLease || r.PrevKv {
		prev = w.s.at(string(r.Key), w.rev())
	}
	// With either flag the key existed when the request was permitted; within one transaction it cannot also be deleted.
	if r.IgnoreValue {
		value = prev.GetValue()
	}
	if r.IgnoreLease {
		lease = prev.GetLease()
	}
	w.put(string(r.Key), value, lease)
	resp := &pb.PutResponse{Header: header(w.rev())}
	if r.PrevKv {
		resp.PrevKv = prev
	}
	return resp
}

func (w *write) runDelete(r *pb.DeleteRangeRequest) *pb.DeleteRangeResponse {
	deleted := w.delete(spanOf(r.Key, r.RangeEnd))
	resp := &pb.DeleteRangeResponse{Header: header(w.rev()), Deleted: int64(len(deleted))}
	if r.PrevKv {
		resp.PrevKvs = deleted
	}
	return resp
}
