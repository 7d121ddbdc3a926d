// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// newServer makes a member's gRPC server with the settings of a real one.
func newServer(m *Member) *grpc.Server {
	s := grpc.NewServer(
		grpc.UnaryInterceptor(m.unary),
		grpc.StreamInterceptor(m.stream),
		grpc.MaxRecvMsgSize(m.cluster.opts.MaxRequestBytes+512*1024),
		grpc.MaxSendMsgSize(math.MaxInt32),
		grpc.MaxConcurrentStreams(math.MaxUint32),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 2 * time.Hour, Timeout: 20 * time.Second}),
	)
	pb.RegisterKVServer(s, &kvServer{m: m})
	pb.RegisterLeaseServer(s, &leaseServer{m: m})
	pb.RegisterWatchServer(s, &watchServer{m: m})
	pb.RegisterClusterServer(s, &clusterServer{m: m})
	pb.RegisterMaintenanceServer(s, &maintenanceServer{m: m})
	pb.RegisterAuthServer(s, &authServer{m: m})
	return s
}

// headerLocked is the head of an answer at a revision.
func (m *Member) headerLocked(rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: m.cluster.clusterID, MemberId: m.id, Revision: rev, RaftTerm: m.term}
}

// fill completes the header of an answer, with the member's revision unless it has one.
func (m *Member) fill(h *pb.ResponseHeader) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	rev := h.Revision
	if rev == 0 {
		rev = m.revLocked()
	}
	full := m.headerLocked(rev)
	h.ClusterId, h.MemberId, h.Revision, h.RaftTerm = full.ClusterId, full.MemberId, full.Revision, full.RaftTerm
}

// callOf describes a request to the hooks.
func (m *Member) callOf(ctx context.Context, method string, req any) Call {
	call := Call{Member: m.number, Method: strings.TrimPrefix(method, "/etcdserverpb."), cluster: m.cluster}
	call.Request, _ = req.(proto.Message)
	if p, ok := peer.FromContext(ctx); ok {
		if a, ok := p.Addr.(*addr); ok {
			call.Host, call.conn = a.link.host.name, a.conn
		}
	}
	return call
}

func (m *Member) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return m.cluster.hooks.run(ctx, m.callOf(ctx, info.FullMethod, req), func(ctx context.Context) (proto.Message, error) {
		if err := m.awaitRunning(ctx); err != nil {
			return nil, err
		}
		if requiresLeader(ctx) && !m.knowsLeader() {
			return nil, rpctypes.ErrGRPCNoLeader
		}
		resp, err := handler(ctx, req)
		if err != nil {
			return nil, err
		}
		return resp.(proto.Message), nil
	})
}

// stream ends a stream that requires a leader when the member has had none for long enough.
func (m *Member) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := m.awaitRunning(ss.Context()); err != nil {
		return err
	}
	if !requiresLeader(ss.Context()) {
		return handler(srv, ss)
	}
	ctx, cancel := newLeaderContext(ss.Context())
	defer cancel(nil)
	c := m.cluster
	c.mu.Lock()
	if m.lead == nil {
		c.mu.Unlock()
		return rpctypes.ErrGRPCNoLeader
	}
	m.requiring = append(m.requiring, ctx)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		m.requiring = slices.DeleteFunc(m.requiring, func(o *leaderContext) bool { return o == ctx })
	}()
	return handler(srv, leaderStream{ss, ctx})
}

func (m *Member) endLeaderlessLocked() {
	for _, ctx := range m.requiring {
		ctx.cancel(rpctypes.ErrGRPCNoLeader)
	}
	m.requiring = nil
}

func (m *Member) knowsLeader() bool {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	return m.lead != nil
}

func requiresLeader(ctx context.Context) bool {
	md, _ := metadata.FromIncomingContext(ctx)
	v := md.Get(rpctypes.MetadataRequireLeaderKey)
	return len(v) > 0 && v[0] == rpctypes.MetadataHasLeader
}

// leaderContext is the context of a stream that requires a leader: its error is the reason for which the member ended it.
type leaderContext struct {
	context.Context
	stop context.CancelFunc

	mu     sync.Mutex
	reason error
}

func newLeaderContext(parent context.Context) (*leaderContext, func(error)) {
	c := &leaderContext{}
	c.Context, c.stop = context.WithCancel(parent)
	return c, c.cancel
}

func (c *leaderContext) cancel(reason error) {
	c.mu.Lock()
	if c.reason == nil {
		c.reason = reason
	}
	c.mu.Unlock()
	c.stop()
}

func (c *leaderContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != nil {
		return c.reason
	}
	return c.Context.Err()
}

type leaderStream struct {
	grpc.ServerStream
	ctx *leaderContext
}

func (s leaderStream) Context() context.Context { return s.ctx }

// rpcError is the error as a client gets it: what is not of etcd's own errors, nor of a context, arrives as unknown.
func rpcError(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if errors.Is(err, errLeaseNotFound) {
		return rpctypes.ErrGRPCLeaseNotFound
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Unknown, err.Error())
}
