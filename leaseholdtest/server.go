// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"net/url"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"google.golang.org/grpc"
)

// graceful bounds how long a stopping member waits for calls that it is working on. Streams never end by themselves.
const graceful = 300 * time.Millisecond

// Members preallocate two segments of their log, of 64 MB each by default: more than a test writes, and memory where
// temporary files are kept in memory.
func init() { wal.SegmentSizeBytes = 4 << 20 }

// server is one run of a member.
type server struct {
	etcd *embed.Etcd
	grpc atomic.Pointer[grpc.Server] // nil until the member serves
}

// launch starts the server. The caller holds life.
func (m *Member) launch() (*server, error) {
	s := &server{}
	e, err := embed.StartEtcd(m.config(s))
	if err != nil {
		return nil, err
	}
	s.etcd = e
	m.id.Store(uint64(e.Server.MemberID()))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Store(s)
	m.eachLinkLocked(func(l *Link) { l.setDown(false) })
	return s, nil
}

func (m *Member) config(s *server) *embed.Config {
	cfg := m.cluster.opts.embedConfig()
	cfg.Name = m.name
	cfg.Dir = m.dir
	cfg.ListenClientUrls = []url.URL{m.client.url("http")}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.AdvertisePeerUrls = []url.URL{m.advertised()}
	cfg.ListenPeerUrls = []url.URL{m.peer.url(m.peerScheme())}
	cfg.InitialCluster, cfg.InitialClusterToken = m.cluster.initialCluster()
	cfg.SocketOpts.ReusePort = reusePort
	if m.gate != nil {
		cfg.PeerTLSInfo = m.cluster.tls.info(m.index)
	}
	// The gRPC server is not reachable otherwise, and a kill must end it without its goodbyes.
	cfg.ServiceRegister = func(g *grpc.Server) { s.grpc.Store(g) }
	if m.cluster.opts.Configure != nil {
		m.cluster.opts.Configure(m.index, cfg)
	}
	return cfg
}

func (m *Member) peerScheme() string {
	if m.gate != nil {
		return "https"
	}
	return "http"
}

// advertised is the URL at which the other members find this one.
func (m *Member) advertised() url.URL {
	if m.gate != nil {
		return url.URL{Scheme: "https", Host: m.gate.listener.Addr().String()}
	}
	return m.peer.url("http")
}

// stop is Stop for the holder of life, with or without an attempt to hand leadership over.
func (m *Member) stop(handOver bool) {
	s := m.server.Load()
	if s == nil {
		return
	}
	if g := s.grpc.Load(); g != nil {
		timer := time.AfterFunc(graceful, g.Stop) // which makes GracefulStop return
		g.GracefulStop()
		timer.Stop()
	}
	if handOver {
		s.etcd.Server.Stop()
	} else {
		s.etcd.Server.HardStop()
	}
	m.end(s)
}

// kill is Kill for the holder of life.
func (m *Member) kill() {
	s := m.server.Load()
	if s == nil {
		return
	}
	m.goDown()
	if g := s.grpc.Load(); g != nil {
		g.Stop()
	}
	s.etcd.Server.HardStop()
	m.end(s)
}

// end closes what is left of a server that has stopped serving.
func (m *Member) end(s *server) {
	// The member's listeners would wait for connections that have not said anything yet.
	m.goDown()
	// Close waits forever for a server that has never served, unless it has been stopped before: both callers did.
	s.etcd.Close()
}

// goDown resets all connections through links, and lets no new one through. It is idempotent.
func (m *Member) goDown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.server.Store(nil)
	m.eachLinkLocked(func(l *Link) { l.setDown(true) })
}
