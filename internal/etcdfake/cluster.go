// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// Cluster is a fake etcd cluster. Safe for concurrent use.
type Cluster struct {
	opts    Options
	members []*Member

	mu     sync.Mutex // never held across the network, a hook or a wait
	agenda agenda
	rng    *rand.Rand // of everything but the network
	store  *store
	raft   raft
	leases leaseTable
	seen   record
	auth   *authStore

	clusterID uint64
	noSpace   bool
	observers []func(Change)

	hooks hooks

	hostMu sync.Mutex
	hosts  map[*clientv3.Client]*Host
	count  int // of hosts ever made

	stop    context.CancelFunc // ends the cluster's own proposals
	ctx     context.Context
	running sync.WaitGroup // serve and confirmLoop of every member
	closing sync.Once
}

// New starts a cluster whose first member leads. In a synctest bubble it must be called inside of the bubble. Close
// ends it.
func New(opts Options) *Cluster {
	opts = opts.withDefaults()
	c := &Cluster{
		opts:      opts,
		rng:       rand.New(rand.NewPCG(opts.Seed, 0)),
		store:     newStore(),
		clusterID: opts.ClusterID,
		hosts:     make(map[*clientv3.Client]*Host),
	}
	c.agenda.mu = &c.mu
	c.leases.init()
	c.auth = newAuthStore(opts.Auth)
	c.ctx, c.stop = context.WithCancel(context.Background())
	for i := range opts.Members {
		c.members = append(c.members, newMember(c, i))
	}
	c.mu.Lock()
	c.electLocked(c.members[0])
	c.raft.pending = nil
	c.applyLocked(&entry{promote: c.members[0]}) // the cluster has formed already
	c.mu.Unlock()
	for _, m := range c.members {
		c.running.Go(m.serve)
		c.running.Go(m.confirmLoop)
	}
	return c
}

// NewForTest starts a cluster that is closed when the test ends, after the clients that Client made for it.
func NewForTest(tb testing.TB, opts Options) *Cluster {
	tb.Helper()
	c := New(opts)
	tb.Cleanup(c.Close)
	return c
}

// Close ends every connection and every goroutine of the cluster. Clients stay the caller's to close. It can be
// called again.
func (c *Cluster) Close() {
	c.closing.Do(func() {
		c.stop()
		c.mu.Lock()
		c.agenda.close()
		c.mu.Unlock()
		for _, m := range c.members {
			m.server.Stop()
		}
		c.running.Wait()
	})
}

// Size returns the number of members.
func (c *Cluster) Size() int { return len(c.members) }

// Member returns member i, counted from 0.
func (c *Cluster) Member(i int) *Member { return c.members[i] }

// Endpoints returns the addresses of all members, "m0.fake:2379" and so on. Only clients of this cluster can dial them.
func (c *Cluster) Endpoints() []string {
	eps := make([]string, len(c.members))
	for i, m := range c.members {
		eps[i] = m.address
	}
	return eps
}

// Host is one machine on which clients run: it has a link to each member. Clients of one host share its links.
type Host struct {
	cluster *Cluster
	number  int
	name    string
	links   []*Link
}

// NewHost adds a machine to the network.
func (c *Cluster) NewHost() *Host {
	c.hostMu.Lock()
	defer c.hostMu.Unlock()
	c.count++
	h := &Host{cluster: c, number: c.count, name: fmt.Sprintf("h%d.fake", c.count)}
	for _, m := range c.members {
		h.links = append(h.links, newLink(h, m))
	}
	for i, m := range c.members {
		m.attach(h.links[i])
	}
	return h
}

// Name returns the name of the host, as in Call.Host.
func (h *Host) Name() string { return h.name }

// Link returns the network between the host and member i.
func (h *Host) Link(i int) *Link { return h.links[i] }

// Config returns etcd's default client configuration for this host: all members as endpoints, the fake network as
// dialer, logs off.
func (h *Host) Config() clientv3.Config {
	return clientv3.Config{
		Endpoints:   h.cluster.Endpoints(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(h.DialContext)},
		Logger:      zap.NewNop(),
	}
}

// Client makes a real etcd client on this host; each of with may change its configuration. The client is closed when
// the test ends.
func (h *Host) Client(tb testing.TB, with ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	cfg := h.Config()
	for _, w := range with {
		w(&cfg)
	}
	cli, err := clientv3.New(cfg)
	if err != nil {
		tb.Fatalf("client of the fake cluster: %v", err)
	}
	h.cluster.hostMu.Lock()
	h.cluster.hosts[cli] = h
	h.cluster.hostMu.Unlock()
	tb.Cleanup(func() { _ = cli.Close() }) // the test may have closed it
	return cli
}

// Client makes a client on a machine of its own.
func (c *Cluster) Client(tb testing.TB, with ...func(*clientv3.Config)) *clientv3.Client {
	tb.Helper()
	return c.NewHost().Client(tb, with...)
}

// HostOf returns the host of a client that Client made, nil of any other.
func (c *Cluster) HostOf(cli *clientv3.Client) *Host {
	c.hostMu.Lock()
	defer c.hostMu.Unlock()
	return c.hosts[cli]
}

// Link returns the network between a client that Client made and member i.
func (c *Cluster) Link(cli *clientv3.Client, i int) *Link { return c.HostOf(cli).Link(i) }

// DialContext opens a connection from the host to a member's address. It is the dialer of Config.
func (h *Host) DialContext(ctx context.Context, address string) (net.Conn, error) {
	for _, l := range h.links {
		if l.member.address == address {
			return l.dial(ctx)
		}
	}
	return nil, &net.DNSError{Err: "no such member", Name: address, IsNotFound: true}
}
