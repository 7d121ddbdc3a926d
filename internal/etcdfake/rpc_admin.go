// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

type clusterServer struct {
	pb.UnimplementedClusterServer
	m *Member
}

func (s *clusterServer) MemberList(ctx context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	c := s.m.cluster
	if r.Linearizable {
		if err := s.m.linearize(ctx); err != nil {
			return nil, rpcError(err)
		}
	}
	if err := c.authorized(ctx, access{}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := &pb.MemberListResponse{Header: s.m.headerLocked(0)}
	for _, m := range c.members {
		resp.Members = append(resp.Members, &pb.Member{
			ID: m.id, Name: fmt.Sprintf("m%d", m.number),
			PeerURLs: []string{"http://peer." + m.address}, ClientURLs: []string{"http://" + m.address},
		})
	}
	return resp, nil
}

type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	m *Member
}

func (s *maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	c := s.m.cluster
	if err := c.authorized(ctx, access{}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := &pb.StatusResponse{
		Header: s.m.headerLocked(s.m.revLocked()), Version: c.opts.Version, StorageVersion: c.opts.Version,
		RaftIndex: uint64(c.raft.index()), RaftAppliedIndex: uint64(s.m.applied), RaftTerm: s.m.term,
	}
	if s.m.lead != nil {
		resp.Leader = s.m.lead.id
	} else {
		resp.Errors = append(resp.Errors, rpctypes.ErrNoLeader.Error())
	}
	if c.noSpace {
		resp.Errors = append(resp.Errors, (&pb.AlarmMember{MemberID: s.m.id, Alarm: pb.AlarmType_NOSPACE}).String())
	}
	return resp, nil
}

func (s *maintenanceServer) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	c := s.m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.m.lead != s.m {
		return nil, rpctypes.ErrGRPCNotLeader
	}
	for _, m := range c.members {
		if m.id == r.TargetID && m.connected() && c.raft.serving {
			c.electLocked(m)
			return &pb.MoveLeaderResponse{Header: s.m.headerLocked(s.m.revLocked())}, nil
		}
	}
	return nil, rpctypes.ErrGRPCBadLeaderTransferee
}
