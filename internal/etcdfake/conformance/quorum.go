// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Quorum is a cluster of three members under test.
type Quorum struct {
	// Dial connects to one member, without the retries of etcd's client. The connection is closed when the test ends.
	Dial func(t *testing.T, member int) *grpc.ClientConn
	// Stop ends a member for good.
	Stop func(member int)
	// ElectionTimeout is the cluster's.
	ElectionTimeout time.Duration
}

// RunQuorum checks what clients observe when members are lost, each time on a cluster of its own.
func RunQuorum(t *testing.T, start func(*testing.T) Quorum) {
	for _, b := range quorumBehaviours {
		t.Run(b.name, func(t *testing.T) { b.test(newMembers(t, start(t))) })
	}
}

// RunQuorumInBubbles does the same, in bubbles.
func RunQuorumInBubbles(t *testing.T, start func(*testing.T) Quorum) {
	for _, b := range quorumBehaviours {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { b.test(newMembers(t, start(t))) })
		})
	}
}

// members is a cluster and a connection to each member.
type members struct {
	*env
	Quorum
	conns []*grpc.ClientConn
}

func newMembers(t *testing.T, q Quorum) *members {
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	t.Cleanup(cancel)
	m := &members{env: &env{T: t, ctx: ctx}, Quorum: q}
	for i := range 3 {
		m.conns = append(m.conns, q.Dial(t, i))
	}
	return m
}

// leader asks a member who leads, until there is one other than the one excluded.
func (m *members) leader(ask, except int) int {
	m.Helper()
	ids := make(map[uint64]int)
	for i, conn := range m.conns {
		if i != except {
			ids[must(pb.NewMaintenanceClient(conn).Status(m.ctx, &pb.StatusRequest{}))(m.env).Header.MemberId] = i
		}
	}
	for m.ctx.Err() == nil {
		r := must(pb.NewMaintenanceClient(m.conns[ask]).Status(m.ctx, &pb.StatusRequest{}))(m.env)
		if i, known := ids[r.Leader]; known {
			return i
		}
		m.sleep(10 * time.Millisecond)
	}
	m.Fatal("nobody leads")
	return -1
}

func (m *members) put(i int) error {
	_, err := pb.NewKVClient(m.conns[i]).Put(m.ctx, &pb.PutRequest{Key: []byte("a")})
	return rpctypes.Error(err)
}

func (m *members) get(i int) error {
	_, err := pb.NewKVClient(m.conns[i]).Range(m.ctx, &pb.RangeRequest{Key: []byte("a")})
	return rpctypes.Error(err)
}

func (m *members) grant(i int, ttl int64) int64 {
	m.Helper()
	return must(pb.NewLeaseClient(m.conns[i]).LeaseGrant(m.ctx, &pb.LeaseGrantRequest{TTL: ttl}))(m.env).ID
}

// renewUntilItEnds renews a lease again and again, and returns how long the last answer was waited for and what ended
// the stream.
func (m *members) renewUntilItEnds(ctx context.Context, i int, id int64) (time.Duration, error) {
	s, err := pb.NewLeaseClient(m.conns[i]).LeaseKeepAlive(ctx)
	for err == nil {
		_ = s.Send(&pb.LeaseKeepAliveRequest{ID: id}) // its error is what Recv returns
		sent := time.Now()
		if _, err = s.Recv(); err != nil {
			return time.Since(sent), rpctypes.Error(err)
		}
		m.sleep(20 * time.Millisecond)
	}
	return 0, rpctypes.Error(err)
}

func (m *members) renewOnce(i int, id int64) (ttl int64, err error) {
	s := must(pb.NewLeaseClient(m.conns[i]).LeaseKeepAlive(m.ctx))(m.env)
	_ = s.Send(&pb.LeaseKeepAliveRequest{ID: id}) // its error is what Recv returns
	r, err := s.Recv()
	return r.GetTTL(), rpctypes.Error(err)
}

var quorumBehaviours = []struct {
	name string
	test func(*members)
}{
	{"AMemberWithoutAQuorumSaysSoInItsOwnTime", func(m *members) {
		me := m.leader(0, -1)
		id := m.grant(me, 60)
		fails(m.env, "put before", m.put(me), nil)
		for i := range 3 {
			if i != me {
				m.Stop(i)
			}
		}
		// Requests are failed when 5s and two election timeouts have passed.
		patience := 5*time.Second + 2*m.ElectionTimeout
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := m.renewUntilItEnds(clientv3.WithRequireLeader(m.ctx), me, id)
			fails(m.env, "keepalive that requires a leader", err, rpctypes.ErrNoLeader)
		})
		wg.Go(func() {
			waited, err := m.renewUntilItEnds(m.ctx, me, id)
			fails(m.env, "keepalive", err, rpctypes.ErrNoLeader)
			if waited < patience {
				m.Errorf("the renewal that failed had waited %v only", waited)
			}
		})
		wg.Go(func() {
			s := must(pb.NewWatchClient(m.conns[me]).Watch(clientv3.WithRequireLeader(m.ctx)))(m.env)
			_, err := s.Recv()
			fails(m.env, "watch that requires a leader", rpctypes.Error(err), rpctypes.ErrNoLeader)
		})
		wg.Go(func() {
			start := time.Now()
			fails(m.env, "put at once", m.put(me), rpctypes.ErrTimeout)
			if took := time.Since(start); took < patience {
				m.Errorf("the put failed after %v only", took)
			}
		})
		wg.Go(func() { fails(m.env, "read at once", m.get(me), rpctypes.ErrTimeout) })
		m.sleep(4 * m.ElectionTimeout)
		wg.Go(func() {
			if err := m.put(me); status.Code(err) != codes.DeadlineExceeded {
				m.Errorf("put that nobody took: got %v, want code DeadlineExceeded", err)
			}
		})
		wg.Go(func() {
			_, err := pb.NewLeaseClient(m.conns[me]).LeaseTimeToLive(m.ctx, &pb.LeaseTimeToLiveRequest{ID: id})
			fails(m.env, "time to live", rpctypes.Error(err), rpctypes.ErrNoLeader)
		})
		_, err := pb.NewKVClient(m.conns[me]).Range(m.ctx, &pb.RangeRequest{Key: []byte("a"), Serializable: true})
		fails(m.env, "serializable read", err, nil)
		wg.Wait()
		waited, err := m.renewUntilItEnds(clientv3.WithRequireLeader(m.ctx), me, id)
		fails(m.env, "new keepalive that requires a leader", err, rpctypes.ErrNoLeader)
		if waited > patience {
			m.Errorf("it waited for %v", waited)
		}
		_, err = pb.NewLeaseClient(m.conns[me]).LeaseGrant(clientv3.WithRequireLeader(m.ctx), &pb.LeaseGrantRequest{TTL: 60})
		fails(m.env, "grant that requires a leader", rpctypes.Error(err), rpctypes.ErrNoLeader)
	}},
	{"ANewLeaderRestartsEveryLease", func(m *members) {
		old := m.leader(0, -1)
		other := (old + 1) % 3
		id := m.grant(old, 10)
		m.sleep(5 * time.Second)
		m.Stop(old)
		m.leader(other, old)
		for m.put(other) != nil && m.ctx.Err() == nil { // until a proposal gets through to the new leader
			m.sleep(10 * time.Millisecond)
		}
		r := must(pb.NewLeaseClient(m.conns[other]).LeaseTimeToLive(m.ctx, &pb.LeaseTimeToLiveRequest{ID: id}))(m.env)
		if r.GrantedTTL != 10 || r.TTL < 5 { // without a restart it would be less, however soon this was asked
			m.Errorf("TTL %d of %d, half a term after the grant", r.TTL, r.GrantedTTL)
		}
		_, err := m.renewOnce(other, id)
		fails(m.env, "renewal", err, nil)
	}},
	{"AnyMemberRenews", func(m *members) {
		id := m.grant(m.leader(0, -1), 60)
		for i := range 3 {
			ttl, err := m.renewOnce(i, id)
			fails(m.env, "renewal", err, nil)
			same(m.env, "TTL", ttl, 60)
			ttl, err = m.renewOnce(i, 4242)
			fails(m.env, "renewal of nothing", err, nil)
			same(m.env, "TTL of nothing", ttl, 0)
			r := must(pb.NewLeaseClient(m.conns[i]).LeaseTimeToLive(m.ctx, &pb.LeaseTimeToLiveRequest{ID: 4242}))(m.env)
			same(m.env, "time to live of nothing", r.TTL, -1)
		}
	}},
}
