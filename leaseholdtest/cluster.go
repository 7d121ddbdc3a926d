// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTimeout bounds [Start]: two orders of magnitude above what a start takes on a quiet machine.
const startTimeout = 2 * time.Minute

// startAttempts is how often a start is tried when another process was faster at a port.
const startAttempts = 5

// Cluster is a running etcd cluster in this process, on loopback ports, with its data in a directory of its own.
//
// A Cluster is safe for concurrent use. Its methods that change members wait for each other, member by member.
type Cluster struct {
	opts    Options
	dir     string
	members []*Member
	tls     *peerTLS // nil for a single member

	mu       sync.Mutex
	token    string // names the cluster; a replaced cluster gets another one
	replaced int    // how often the cluster was replaced
	saves    int    // how often its data was saved
	closed   bool
	clients  map[*Client]struct{} // not yet closed
	auth     bool                 // authentication is on: the operator logs in as root

	closeOnce sync.Once
	closeErr  error
}

// Start starts a cluster, waits until it serves, and stops it when the test ends. It ends the test if that fails.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := StartCluster(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("leaseholdtest: close the cluster: %v", err)
		}
	})
	return c
}

// StartCluster starts a cluster and waits until every member serves. The context bounds the start only. The caller
// must close the cluster.
func StartCluster(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	for range startAttempts - 1 {
		c, err := startOnce(ctx, o)
		if !errors.Is(err, syscall.EADDRINUSE) {
			return c, err
		}
	}
	return startOnce(ctx, o)
}

func startOnce(ctx context.Context, o Options) (_ *Cluster, err error) {
	c := &Cluster{opts: o, token: "leaseholdtest", clients: make(map[*Client]struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.dir, err = os.MkdirTemp(o.Dir, "leaseholdtest-"); err != nil {
		return nil, fmt.Errorf("leaseholdtest: start: %w", err)
	}
	if o.Members > 1 {
		if c.tls, err = newPeerTLS(c.dir); err != nil {
			return nil, err
		}
	}
	for i := range o.Members {
		m, err := newMember(c, i)
		if err != nil {
			return nil, err
		}
		c.members = append(c.members, m)
	}
	if err := c.RestartAll(ctx); err != nil {
		return nil, err
	}
	if _, err := c.WaitLeader(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Members are the cluster's members, running or not, in a fixed order.
func (c *Cluster) Members() []*Member { return slices.Clone(c.members) }

// Member is the member with the given index, from 0; nil if there is none.
func (c *Cluster) Member(index int) *Member {
	if index < 0 || index >= len(c.members) {
		return nil
	}
	return c.members[index]
}

// Endpoints are the members' own client URLs, past all links.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Leader is the member that leads at this moment by its own belief and that of the members in its term; nil if there
// is none.
func (c *Cluster) Leader() *Member {
	var leader *Member
	var leaderTerm uint64
	votes := make(map[uint64]int)
	for _, m := range c.members {
		if s := m.server.Load(); s != nil {
			votes[uint64(s.etcd.Server.Leader())]++
			if s.etcd.Server.Leader() == s.etcd.Server.MemberID() && s.etcd.Server.Term() >= leaderTerm {
				leader, leaderTerm = m, s.etcd.Server.Term()
			}
		}
	}
	if leader == nil || votes[leader.ID()] <= len(c.members)/2 {
		return nil
	}
	return leader
}

// WaitLeader waits until a majority of the members follows one leader, and returns it.
func (c *Cluster) WaitLeader(ctx context.Context) (*Member, error) {
	var leader *Member
	if err := waitUntil(ctx, func() bool { leader = c.Leader(); return leader != nil }); err != nil {
		return nil, fmt.Errorf("leaseholdtest: wait for a leader: %w", err)
	}
	return leader, nil
}

// Settle waits until all running members follow one leader and have applied all that it had committed when Settle
// began to look. A member that is paused or cut off keeps it from settling.
func (c *Cluster) Settle(ctx context.Context) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return err
	}
	var committed uint64
	if s := leader.server.Load(); s != nil {
		committed = s.etcd.Server.CommittedIndex()
	}
	settled := func() bool {
		leader := c.Leader()
		if leader == nil {
			return false
		}
		for _, m := range c.members {
			s := m.server.Load()
			if s != nil && (uint64(s.etcd.Server.Leader()) != leader.ID() || s.etcd.Server.AppliedIndex() < committed) {
				return false
			}
		}
		return true
	}
	if err := waitUntil(ctx, settled); err != nil {
		return fmt.Errorf("leaseholdtest: settle: %w", err)
	}
	return nil
}

// RestartAll starts the members that are not running, all at once, and waits until they serve.
func (c *Cluster) RestartAll(ctx context.Context) error {
	return c.eachMember(func(m *Member) error {
		s, err := m.start(ctx)
		if err != nil {
			return fmt.Errorf("leaseholdtest: restart %s: %w", m, err)
		}
		return m.waitReady(ctx, s)
	})
}

// StopAll stops all members at once, as [Member.Stop] does, but none hands leadership over to one that is about to
// go as well.
func (c *Cluster) StopAll(ctx context.Context) error {
	return c.eachMember(func(m *Member) error {
		if err := m.lock(ctx); err != nil {
			return fmt.Errorf("leaseholdtest: stop %s: %w", m, err)
		}
		defer m.unlock()
		m.stop(false)
		return nil
	})
}

// KillAll kills all members at once, as [Member.Kill] does.
func (c *Cluster) KillAll(ctx context.Context) error {
	return c.eachMember(func(m *Member) error { return m.Kill(ctx) })
}

// eachMember runs f for all members at once, waits for all, and joins the errors.
func (c *Cluster) eachMember(f func(*Member) error) error {
	errs := make([]error, len(c.members))
	var wg sync.WaitGroup
	for i, m := range c.members {
		wg.Go(func() { errs[i] = f(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close closes the clients that are still open, stops all members and removes their data. It is idempotent.
// Direct clients must be closed before.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.close() })
	return c.closeErr
}

func (c *Cluster) close() error {
	c.mu.Lock()
	c.closed = true
	clients := c.clients
	c.clients = nil
	c.mu.Unlock()
	var errs []error
	// Clients first: a server that still has streams would wait for them.
	for cl := range clients {
		errs = append(errs, cl.Close())
	}
	errs = append(errs, c.eachMember(func(m *Member) error { m.close(); return nil }))
	if c.dir != "" {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// own registers a client to be closed with the cluster.
func (c *Cluster) own(cl *Client) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("leaseholdtest: new client: %w", errClosed)
	}
	c.clients[cl] = struct{}{}
	return nil
}

func (c *Cluster) disown(cl *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.clients, cl)
}

// initialCluster is the member list by which the members find each other at their first start, and the cluster's
// token.
func (c *Cluster) initialCluster() (members, token string) {
	var all []string
	for _, m := range c.members {
		u := m.advertised()
		all = append(all, m.name+"="+u.String())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(all, ","), c.token
}

// memberName is the name of the member with the given index.
func memberName(index int) string { return "m" + strconv.Itoa(index) }
