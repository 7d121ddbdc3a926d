// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"example.com/leasehold/leaseholdtest"
)

const (
	keepaliveMethod = "/etcdserverpb.Lease/LeaseKeepAlive"
	grantMethod     = "/etcdserverpb.Lease/LeaseGrant"
	txnMethod       = "/etcdserverpb.KV/Txn"
)

// A probe sits in a client's connections and sees every request that leaves it, retries included.
type probe struct {
	mu       sync.Mutex
	calls    map[string]int // requests and streams begun, by method
	renewals map[clientv3.LeaseID]int
	// stuck are leases whose answers are never received, nor is anything after them on their stream: so does a server
	// that waits for the revocation of an expired lease.
	stuck map[clientv3.LeaseID]bool
	// carrier is the address from which the last answer to a renewal came.
	carrier string
}

func newProbe() *probe {
	return &probe{
		calls:    make(map[string]int),
		renewals: make(map[clientv3.LeaseID]int),
		stuck:    make(map[clientv3.LeaseID]bool),
	}
}

// client returns a client of the scene with the probe inside.
func (p *probe) client(sc *scene) *leaseholdtest.Client {
	sc.t.Helper()
	return sc.ClientWith(sc.t, leaseholdtest.ClientOptions{DialOptions: p.options()})
}

func (p *probe) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream)}
}

func (p *probe) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	p.count(method)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (p *probe) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	p.count(method)
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &probedStream{s, p}, nil
}

func (p *probe) count(method string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[method]++
}

// renewed is how many renewals of a lease were sent.
func (p *probe) renewed(id clientv3.LeaseID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewals[id]
}

// allRenewed is how many renewals were sent.
func (p *probe) allRenewed() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.renewals {
		n += k
	}
	return n
}

// called is how often each method was called, a stream's opening included.
func (p *probe) called() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.calls)
}

// allCalled is how many calls there were.
func (p *probe) allCalled() (n int) {
	for _, k := range p.called() {
		n += k
	}
	return n
}

func (p *probe) setStuck(id clientv3.LeaseID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stuck[id] = true
}

// awaitRenewal waits until one more renewal of the lease has been sent.
func (p *probe) awaitRenewal(t testing.TB, id clientv3.LeaseID) {
	t.Helper()
	before := p.renewed(id)
	leaseholdtest.Eventually(t, step, "a renewal is sent", func() bool { return p.renewed(id) > before })
}

// carriedBy reports whether the last answer to a renewal came from the client's i-th endpoint.
func (p *probe) carriedBy(cl *leaseholdtest.Client, i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carrier == strings.TrimPrefix(cl.Endpoints()[i], "http://")
}

type probedStream struct {
	grpc.ClientStream
	probe *probe
}

func (s *probedStream) SendMsg(m any) error {
	if req, ok := m.(*pb.LeaseKeepAliveRequest); ok {
		s.probe.mu.Lock()
		s.probe.renewals[clientv3.LeaseID(req.GetID())]++
		s.probe.mu.Unlock()
	}
	return s.ClientStream.SendMsg(m)
}

func (s *probedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	answer, ok := m.(*pb.LeaseKeepAliveResponse)
	if !ok {
		return nil
	}
	s.probe.mu.Lock()
	stuck := s.probe.stuck[clientv3.LeaseID(answer.GetID())]
	if from, ok := peer.FromContext(s.Context()); ok && !stuck {
		s.probe.carrier = from.Addr.String()
	}
	s.probe.mu.Unlock()
	if stuck {
		<-s.Context().Done()
		return context.Cause(s.Context())
	}
	return nil
}

// awaitExtension waits until the session's belief has been extended.
func awaitExtension(t testing.TB, s interface{ Remaining() time.Duration }) {
	t.Helper()
	until := time.Now().Add(s.Remaining())
	leaseholdtest.Eventually(t, step, "a renewal is answered", func() bool {
		return time.Now().Add(s.Remaining()).After(until.Add(100 * time.Millisecond))
	})
}
