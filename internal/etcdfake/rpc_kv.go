// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

type kvServer struct {
	pb.UnimplementedKVServer
	m *Member
}

func (s *kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	if err := checkRange(r); err != nil {
		return nil, err
	}
	var resp *pb.RangeResponse
	err := s.read(ctx, r.Serializable, readsOf(r), func(v view) (err error) {
		resp, err = v.read(r)
		return err
	})
	if err != nil {
		return nil, rpcError(err)
	}
	s.m.fill(resp.Header)
	return resp, nil
}

// read runs f on what the member has applied, after it has made sure that this is current unless stale will do.
func (s *kvServer) read(ctx context.Context, stale bool, need access, f func(view) error) error {
	c := s.m.cluster
	if !stale {
		if err := s.m.linearize(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	who, err := c.auth.userLocked(ctx)
	if err != nil {
		return err
	}
	if err := c.permitsLocked(who, need); err != nil {
		return err
	}
	return f(c.store.upTo(s.m.revLocked()))
}

// write proposes a change of the store.
func (s *kvServer) write(
	ctx context.Context, need access, puts int, change func() (proto.Message, error),
) (proto.Message, error) {
	c := s.m.cluster
	c.mu.Lock()
	who, err := c.auth.userLocked(ctx)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return c.propose(ctx, s.m, &entry{change: func() (proto.Message, error) {
		if err := c.permitsLocked(who, need); err != nil {
			return nil, err
		}
		if c.noSpace && puts > 0 {
			return nil, rpctypes.ErrGRPCNoSpace
		}
		return change()
	}})
}

func (s *kvServer) tooLarge(r proto.Message) bool {
	const wrapping = 32 // of the entry that carries the request through the log
	return proto.Size(r)+wrapping > s.m.cluster.opts.MaxRequestBytes
}

func (s *kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	if err := checkPut(r); err != nil {
		return nil, err
	}
	if s.tooLarge(r) {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	c := s.m.cluster
	resp, err := s.write(ctx, writesOf(r), 1, func() (proto.Message, error) {
		w := c.store.write(c.leases.attach)
		if err := w.view().permitsPut(r, c.leaseExistsLocked); err != nil {
			return nil, err
		}
		resp := w.runPut(r)
		w.commit()
		return resp, nil
	})
	return answer[*pb.PutResponse](s.m, resp, err)
}

func (s *kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	if err := checkDelete(r); err != nil {
		return nil, err
	}
	c := s.m.cluster
	resp, err := s.write(ctx, deletesOf(r), 0, func() (proto.Message, error) {
		w := c.store.write(c.leases.attach)
		resp := w.runDelete(r)
		w.commit()
		return resp, nil
	})
	return answer[*pb.DeleteRangeResponse](s.m, resp, err)
}

func (s *kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := checkTxn(r, s.m.cluster.opts.MaxTxnOps); err != nil {
		return nil, err
	}
	if _, _, err := checkOverlaps(r.Success); err != nil {
		return nil, err
	}
	if _, _, err := checkOverlaps(r.Failure); err != nil {
		return nil, err
	}
	if readOnly(r) {
		var resp *pb.TxnResponse
		err := s.read(ctx, serializable(r), accessOf(r), func(v view) (err error) {
			resp, err = v.answerTxn(r)
			return err
		})
		if err != nil {
			return nil, rpcError(err)
		}
		s.m.fill(resp.Header)
		return resp, nil
	}
	if s.tooLarge(r) {
		return nil, rpctypes.ErrGRPCRequestTooLarge
	}
	c := s.m.cluster
	resp, err := s.write(ctx, accessOf(r), putsIn(r), func() (proto.Message, error) {
		w := c.store.write(c.leases.attach)
		b := w.view().decide(r)
		if err := w.view().permits(b, c.leaseExistsLocked); err != nil {
			return nil, err
		}
		resp, err := w.run(b)
		if err != nil {
			return nil, err
		}
		resp.Header.Revision = w.rev()
		w.commit()
		return resp, nil
	})
	return answer[*pb.TxnResponse](s.m, resp, err)
}

func (s *kvServer) Compact(ctx context.Context, r *pb.CompactionRequest) (*pb.CompactionResponse, error) {
	c := s.m.cluster
	resp, err := s.write(ctx, access{admin: true}, 0, func() (proto.Message, error) {
		if err := c.store.compact(r.Revision); err != nil {
			return nil, err
		}
		return &pb.CompactionResponse{Header: header(c.store.rev)}, nil
	})
	return answer[*pb.CompactionResponse](s.m, resp, err)
}

func (c *Cluster) leaseExistsLocked(id int64) bool { return c.leases.alive[id] != nil }

// answer completes the answer of a proposal.
func answer[T interface {
	proto.Message
	GetHeader() *pb.ResponseHeader
}](m *Member, resp proto.Message, err error,
) (T, error) {
	if err != nil {
		var none T
		return none, rpcError(err)
	}
	out := resp.(T)
	m.fill(out.GetHeader())
	return out, nil
}
