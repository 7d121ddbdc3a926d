// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Member is one etcd server of a [Cluster]. It keeps its name, its ports and its data over stops and starts.
type Member struct {
	cluster *Cluster
	index   int
	name    string
	dir     string
	client  *port // where it serves clients
	peer    *port // where it serves members
	gate    *gate // what members dial instead; nil in a cluster of one

	// life is held by whoever starts or stops the member: a lock that can be waited for with a context.
	life chan struct{}
	// server is set while the member runs. Only the holder of life writes it, under mu, together with the links' state.
	server atomic.Pointer[server]
	id     atomic.Uint64 // of the last start

	mu     sync.Mutex
	links  map[*Link]struct{} // of clients, to this member
	paused bool
}

func newMember(c *Cluster, index int) (*Member, error) {
	m := &Member{
		cluster: c,
		index:   index,
		name:    memberName(index),
		dir:     filepath.Join(c.dir, memberName(index)),
		life:    make(chan struct{}, 1),
		links:   make(map[*Link]struct{}),
	}
	var err error
	if m.client, err = reservePort(); err != nil {
		return nil, err
	}
	if m.peer, err = reservePort(); err != nil {
		m.client.free()
		return nil, err
	}
	if c.opts.Members > 1 {
		if m.gate, err = newGate(c.opts.Members, index, m.peer); err != nil {
			m.client.free()
			m.peer.free()
			return nil, fmt.Errorf("leaseholdtest: start: %w", err)
		}
		m.eachPeerLink(func(l *Link) { l.setDown(true) })
	}
	return m, nil
}

// Index is the member's place in [Cluster.Members].
func (m *Member) Index() int { return m.index }

// Name is the member's name in etcd, "m0" for the first.
func (m *Member) Name() string { return m.name }

// String returns the name; "<nil>" of no member.
func (m *Member) String() string {
	if m == nil {
		return "<nil>"
	}
	return m.name
}

// ID is the member's id in etcd, as of its last start.
func (m *Member) ID() uint64 { return m.id.Load() }

// Endpoint is the member's own client URL, past all links.
func (m *Member) Endpoint() string { u := m.client.url("http"); return u.String() }

// Running reports whether the member has been started and not stopped.
func (m *Member) Running() bool { return m.server.Load() != nil }

// Leads reports whether the member believes that it leads.
func (m *Member) Leads() bool {
	s := m.server.Load()
	return s != nil && s.etcd.Server.Leader() == s.etcd.Server.MemberID()
}

// Restart starts the member with its data and ports as before, after a [Member.Stop] if it is running, and waits until
// it serves clients, for which it needs a quorum. If the context ends first, the member is left running. Members that
// need each other for a quorum must be started together, by [Cluster.RestartAll].
func (m *Member) Restart(ctx context.Context) error {
	s, err := m.restart(ctx)
	if err != nil {
		return fmt.Errorf("leaseholdtest: restart %s: %w", m, err)
	}
	return m.waitReady(ctx, s)
}

// waitReady waits until a run of the member serves clients.
func (m *Member) waitReady(ctx context.Context, s *server) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
		return nil
	case err := <-s.etcd.Err():
		return fmt.Errorf("leaseholdtest: restart %s: it ended: %w", m, cmp.Or(err, errStopped))
	case <-s.etcd.Server.StopNotify():
		return fmt.Errorf("leaseholdtest: restart %s: it ended: %w", m, errStopped)
	case <-ctx.Done():
		return fmt.Errorf("leaseholdtest: restart %s: wait until it serves: %w", m, context.Cause(ctx))
	}
}

// restart is Restart without the wait.
func (m *Member) restart(ctx context.Context) (*server, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.unlock()
	m.stop(true)
	return m.launch()
}

// start starts the member if it does not run, without waiting until it serves.
func (m *Member) start(ctx context.Context) (*server, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.unlock()
	if s := m.server.Load(); s != nil {
		return s, nil
	}
	return m.launch()
}

// Stop stops the member in order: it finishes the calls it is working on, hands leadership over if it leads, and
// closes its data. A leader that finds nobody to hand over to looks for some seconds. Stopping a member that does not
// run is no error. See [Cluster.StopAll] to stop all.
func (m *Member) Stop(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return fmt.Errorf("leaseholdtest: stop %s: %w", m, err)
	}
	defer m.unlock()
	m.stop(true)
	return nil
}

// Kill ends the member as nearly as an embedded server can be killed: all connections are reset at once, calls are not
// finished, leadership is not handed over. Its files are closed in order all the same: nothing that it has written is
// lost. Killing a member that does not run is no error.
func (m *Member) Kill(ctx context.Context) error {
	if err := m.lock(ctx); err != nil {
		return fmt.Errorf("leaseholdtest: kill %s: %w", m, err)
	}
	defer m.unlock()
	m.kill()
	return nil
}

// close kills the member for good and gives everything back.
func (m *Member) close() {
	m.life <- struct{}{}
	defer m.unlock()
	m.kill()
	if m.gate != nil {
		m.gate.close()
	}
	m.client.free()
	m.peer.free()
}

var (
	errClosed  = errors.New("the cluster is closed")
	errStopped = errors.New("the member was stopped")
)

func (m *Member) lock(ctx context.Context) error {
	select {
	case m.life <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	if m.cluster.closed {
		m.unlock()
		return errClosed
	}
	return nil
}

func (m *Member) unlock() { <-m.life }

// newClientLink makes a link from a new client.
func (m *Member) newClientLink() (*Link, error) {
	l, err := newLink(m.client.addr)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l.setDown(!m.Running())
	if m.paused {
		l.freeze()
	}
	m.links[l] = struct{}{}
	return l, nil
}

func (m *Member) closeClientLink(l *Link) {
	m.mu.Lock()
	delete(m.links, l)
	m.mu.Unlock()
	l.close()
}

// eachLinkLocked calls f for all links to the member, from clients and members.
func (m *Member) eachLinkLocked(f func(*Link)) {
	for l := range m.links {
		f(l)
	}
	m.eachPeerLink(f)
}

func (m *Member) eachPeerLink(f func(*Link)) {
	if m.gate == nil {
		return
	}
	for _, l := range m.gate.from {
		if l != nil {
			f(l)
		}
	}
}
