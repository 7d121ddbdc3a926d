// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

type leaseServer struct {
	pb.UnimplementedLeaseServer
	m *Member
}

func (s *leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	c := s.m.cluster
	if err := c.authorized(ctx, access{}); err != nil {
		return nil, err
	}
	resp, err := c.propose(ctx, s.m, c.grantEntry(r.ID, r.TTL))
	return answer[*pb.LeaseGrantResponse](s.m, resp, err)
}

func (s *leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	c := s.m.cluster
	if err := c.authorized(ctx, access{}); err != nil {
		return nil, err
	}
	e := c.revokeEntry(r.ID)
	revoke := e.change
	e.change = func() (proto.Message, error) {
		who, err := c.auth.userLocked(ctx)
		if err == nil {
			err = c.permitsLocked(who, access{leases: []int64{r.ID}})
		}
		if err != nil {
			return nil, err
		}
		return revoke()
	}
	resp, err := c.propose(ctx, s.m, e)
	return answer[*pb.LeaseRevokeResponse](s.m, resp, err)
}

// LeaseKeepAlive answers the renewals of one stream strictly one after the other.
func (s *leaseServer) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	done := make(chan error, 1)
	go func() { done <- s.keepAlive(stream) }()
	select {
	case err := <-done:
		return err
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (s *leaseServer) keepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		ctx := stream.Context()
		call := s.m.callOf(ctx, "Lease/LeaseKeepAlive", req)
		resp, err := s.m.cluster.hooks.run(ctx, call, func(ctx context.Context) (proto.Message, error) {
			if err := s.m.awaitRunning(ctx); err != nil {
				return nil, err
			}
			resp, err := s.renewOnce(ctx, call.Host, req.ID)
			if err != nil {
				return nil, err
			}
			return resp, nil
		})
		if err != nil {
			return err
		}
		if err := stream.Send(resp.(*pb.LeaseKeepAliveResponse)); err != nil {
			return err
		}
	}
}

func (s *leaseServer) renewOnce(ctx context.Context, host string, id int64) (*pb.LeaseKeepAliveResponse, error) {
	c := s.m.cluster
	note := c.seen.arrived(c, Renewal{Lease: id, Member: s.m.number, Host: host})
	// The revision is of this member, before the renewal.
	resp := &pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, ID: id}
	s.m.fill(resp.Header)
	ttl, err := s.renew(ctx, id)
	if errors.Is(err, errLeaseNotFound) {
		ttl, err = 0, nil
	}
	c.seen.answered(c, note, ttl, err)
	if err != nil {
		return nil, rpcError(err)
	}
	resp.TTL = ttl
	return resp, nil
}

// renew renews here if this member leads, and else asks the one that does.
func (s *leaseServer) renew(ctx context.Context, id int64) (int64, error) {
	m, c := s.m, s.m.cluster
	if lead, here := m.leadsHere(); here {
		if c.opts.Lease.WaitApplied || !lead.knows(id) {
			if err := m.waitApplied(ctx); err != nil {
				return 0, err
			}
		}
		if err := c.authorized(ctx, access{leases: []int64{id}}); err != nil {
			return 0, err
		}
		ttl, err := m.lessor.renew(ctx, id)
		if !errors.Is(err, errNotPrimary) {
			return ttl, err
		}
	}
	cctx, cancel := context.WithTimeout(ctx, c.opts.requestTimeout())
	defer cancel()
	for cctx.Err() == nil {
		lead, err := m.waitLeader(cctx)
		if err != nil {
			return -1, err
		}
		if err := c.authorized(ctx, access{leases: []int64{id}}); err != nil {
			return 0, err
		}
		ttl, err := m.forward(cctx, lead, func() (int64, error) { return lead.lessor.renew(cctx, id) })
		if err == nil || errors.Is(err, errLeaseNotFound) {
			return ttl, err
		}
		_ = sleep(cctx, forwardRetry) // its end is what the loop looks at
	}
	if errors.Is(cctx.Err(), context.DeadlineExceeded) {
		return -1, rpctypes.ErrGRPCTimeout
	}
	return -1, rpctypes.ErrGRPCCanceled
}

// leadsHere returns the member itself if it believes to lead.
func (m *Member) leadsHere() (*Member, bool) {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	return m, m.lead == m
}

func (m *Member) knows(id int64) bool {
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	return m.cluster.leases.as(id, m.applied) != nil
}

// waitApplied waits until the member has applied what it knows to be committed.
func (m *Member) waitApplied(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !m.connected() {
		return nil // it knows of nothing new
	}
	for index := c.raft.index(); m.applied < index; {
		if m.waitLocked(limit) != nil {
			return rpctypes.ErrGRPCTimeoutWaitAppliedIndex
		}
	}
	return nil
}

func (m *Member) waitLeader(ctx context.Context) (*Member, error) {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	for m.lead == nil {
		if m.waitLocked(ctx) != nil {
			return nil, rpctypes.ErrGRPCNoLeader
		}
	}
	return m.lead, nil
}

// forward asks the leader over the network between members. A leader that cannot be reached does not answer; one that
// is down refuses.
func (m *Member) forward(ctx context.Context, lead *Member, ask func() (int64, error)) (int64, error) {
	c := m.cluster
	hop := c.opts.PeerDelay
	if m == lead {
		hop = 0
	}
	if err := sleep(ctx, hop); err != nil {
		return -1, err
	}
	c.mu.Lock()
	if !lead.up {
		c.mu.Unlock()
		return -1, errNotPrimary
	}
	for lead != m && (m.isolated || lead.isolated || lead.paused) {
		if err := m.waitEitherLocked(ctx, lead); err != nil {
			c.mu.Unlock()
			return -1, err
		}
	}
	c.mu.Unlock()
	if err := lead.waitApplied(ctx); err != nil {
		return -1, err
	}
	ttl, err := ask()
	if serr := sleep(ctx, hop); serr != nil {
		return -1, serr
	}
	return ttl, err
}

// waitEitherLocked waits until one of two members changes.
func (m *Member) waitEitherLocked(ctx context.Context, o *Member) error {
	mine, other := m.changed, o.changed
	m.cluster.mu.Unlock()
	defer m.cluster.mu.Lock()
	select {
	case <-mine:
		return nil
	case <-other:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	c, m := s.m.cluster, s.m
	var need access
	if r.Keys {
		need.leases = []int64{r.ID}
	}
	if err := c.authorized(ctx, need); err != nil {
		return nil, err
	}
	resp, err := s.timeToLive(ctx, r)
	if errors.Is(err, errLeaseNotFound) {
		resp, err = &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: -1}, nil
	}
	if err != nil {
		return nil, rpcError(err)
	}
	m.fill(resp.Header)
	return resp, nil
}

func (s *leaseServer) timeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	c, m := s.m.cluster, s.m
	if _, here := m.leadsHere(); here {
		if err := m.waitApplied(ctx); err != nil {
			return nil, err
		}
		resp, err := m.lessor.look(r)
		if errors.Is(err, errNotPrimary) {
			return nil, rpctypes.ErrGRPCLeaderChanged
		}
		return resp, err
	}
	cctx, cancel := context.WithTimeout(ctx, c.opts.requestTimeout())
	defer cancel()
	for cctx.Err() == nil {
		lead, err := m.waitLeader(cctx)
		if err != nil {
			return nil, err
		}
		var resp *pb.LeaseTimeToLiveResponse
		_, err = m.forward(cctx, lead, func() (_ int64, err error) {
			resp, err = lead.lessor.look(r)
			return 0, err
		})
		if err == nil || errors.Is(err, errLeaseNotFound) {
			return resp, err
		}
		_ = sleep(cctx, forwardRetry) // its end is what the loop looks at
	}
	if errors.Is(cctx.Err(), context.DeadlineExceeded) {
		return nil, rpctypes.ErrGRPCTimeout
	}
	return nil, rpctypes.ErrGRPCCanceled
}

// look tells how long a lease still has, by the member's clock, in whole seconds begun.
func (l *lessor) look(r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	c := l.m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	le := c.leases.as(r.ID, l.m.applied)
	if le == nil {
		return nil, errLeaseNotFound
	}
	if !l.primary {
		return nil, errNotPrimary
	}
	left := l.expiry[r.ID] - l.m.clock.now()
	resp := &pb.LeaseTimeToLiveResponse{Header: &pb.ResponseHeader{}, ID: r.ID, TTL: int64(left / time.Second), GrantedTTL: le.ttl}
	if r.Keys {
		for _, key := range slices.Sorted(maps.Keys(le.keys)) {
			resp.Keys = append(resp.Keys, []byte(key))
		}
	}
	return resp, nil
}

func (s *leaseServer) LeaseLeases(ctx context.Context, _ *pb.LeaseLeasesRequest) (*pb.LeaseLeasesResponse, error) {
	c := s.m.cluster
	c.mu.Lock()
	known := c.leases.known(s.m.applied)
	resp := &pb.LeaseLeasesResponse{Header: s.m.headerLocked(s.m.revLocked())}
	c.mu.Unlock()
	var need access
	for _, l := range known {
		resp.Leases = append(resp.Leases, &pb.LeaseStatus{ID: l.id})
		need.leases = append(need.leases, l.id)
	}
	if err := c.authorized(ctx, need); err != nil {
		return nil, err
	}
	return resp, nil
}
