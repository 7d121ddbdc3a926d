// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// ClientOptions describes a client. The zero value connects to every member with the default settings of
// clientv3, apart from its logger, which is the cluster's.
type ClientOptions struct {
	// Members are those to connect to, in this order. Default: all.
	Members []*Member
	// User and Password log the client in under authentication.
	User, Password string
	// DialOptions are handed to gRPC.
	DialOptions []grpc.DialOption
	// Configure, if set, may change everything else. It must leave the endpoints alone.
	Configure func(*clientv3.Config)
}

// Client is an etcd client that reaches each member over a [Link] of its own. Nobody else's traffic is on these links:
// a fault on one of them concerns this client and that member only.
//
// The members advertise their own addresses, past the links: a client that takes its endpoints from the member
// list (Sync, AutoSyncInterval) leaves its links.
type Client struct {
	*clientv3.Client

	cluster *Cluster
	links   []*Link // by the member's index; nil for members that the client does not know

	closeOnce sync.Once
	closeErr  error
}

// Client returns a client with default settings, which is closed when the test ends.
func (c *Cluster) Client(t testing.TB) *Client {
	t.Helper()
	return c.ClientWith(t, ClientOptions{})
}

// ClientWith does as [Cluster.Client] with the given options.
func (c *Cluster) ClientWith(t testing.TB, o ClientOptions) *Client {
	t.Helper()
	cl, err := c.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil {
			t.Errorf("leaseholdtest: close a client: %v", err)
		}
	})
	return cl
}

// NewClient returns a client. The caller should close it; the cluster's Close does otherwise.
func (c *Cluster) NewClient(o ClientOptions) (*Client, error) {
	cl := &Client{cluster: c, links: make([]*Link, len(c.members))}
	if err := o.check(c); err != nil {
		return nil, fmt.Errorf("leaseholdtest: new client: %w", err)
	}
	var endpoints []string
	for _, m := range o.members(c) {
		l, err := m.newClientLink()
		if err != nil {
			cl.closeLinks()
			return nil, fmt.Errorf("leaseholdtest: new client: %w", err)
		}
		cl.links[m.index] = l
		endpoints = append(endpoints, l.url())
	}
	var err error
	if cl.Client, err = clientv3.New(o.config(c, endpoints)); err != nil {
		cl.closeLinks()
		return nil, fmt.Errorf("leaseholdtest: new client: %w", err)
	}
	if err := c.own(cl); err != nil {
		return nil, errors.Join(err, cl.Close())
	}
	return cl, nil
}

// DirectClient returns a client that connects straight to the members, past all faults and pauses. It is closed
// when the test ends.
func (c *Cluster) DirectClient(t testing.TB) *clientv3.Client {
	t.Helper()
	cl, err := c.NewDirectClient(ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cl.Close(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("leaseholdtest: close a client: %v", err)
		}
	})
	return cl
}

// NewDirectClient returns a client that connects straight to the members, past all faults and pauses. The caller
// must close it before the cluster.
func (c *Cluster) NewDirectClient(o ClientOptions) (*clientv3.Client, error) {
	if err := o.check(c); err != nil {
		return nil, fmt.Errorf("leaseholdtest: new direct client: %w", err)
	}
	var endpoints []string
	for _, m := range o.members(c) {
		endpoints = append(endpoints, m.Endpoint())
	}
	cl, err := clientv3.New(o.config(c, endpoints))
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: new direct client: %w", err)
	}
	return cl, nil
}

// check refuses members that are not the cluster's, or named twice.
func (o ClientOptions) check(c *Cluster) error {
	for i, m := range o.Members {
		if m == nil || m.cluster != c || slices.Contains(o.Members[:i], m) {
			return fmt.Errorf("entry %d of Members: want each member of this cluster once at most", i)
		}
	}
	return nil
}

func (o ClientOptions) members(c *Cluster) []*Member {
	if len(o.Members) > 0 {
		return o.Members
	}
	return c.members
}

func (o ClientOptions) config(c *Cluster, endpoints []string) clientv3.Config {
	cfg := clientv3.Config{
		Endpoints:   endpoints,
		Username:    o.User,
		Password:    o.Password,
		DialOptions: o.DialOptions,
		Logger:      c.opts.Logger,
	}
	if o.Configure != nil {
		o.Configure(&cfg)
	}
	return cfg
}

// Link is the client's path to m; nil if the client does not connect to m.
func (cl *Client) Link(m *Member) *Link {
	if m == nil || m.cluster != cl.cluster {
		return nil
	}
	return cl.links[m.index]
}

// Endpoint is the URL at which the client finds m, one of its Endpoints; "" if the client does not connect to m.
func (cl *Client) Endpoint(m *Member) string {
	l := cl.Link(m)
	if l == nil {
		return ""
	}
	return l.url()
}

// Links are the client's paths to all the members that it connects to, in the order of the members.
func (cl *Client) Links() []*Link {
	return slices.DeleteFunc(slices.Clone(cl.links), func(l *Link) bool { return l == nil })
}

// Blackhole loses what goes between the client and every member, in the given directions. See [Link.Blackhole].
func (cl *Client) Blackhole(d Direction) { cl.each(func(l *Link) { l.Blackhole(d) }) }

// Hold keeps what goes between the client and every member, in the given directions. See [Link.Hold].
func (cl *Client) Hold(d Direction) { cl.each(func(l *Link) { l.Hold(d) }) }

// Release ends Hold on the links to all members.
func (cl *Client) Release(d Direction) { cl.each(func(l *Link) { l.Release(d) }) }

// Reset ends all connections of the client with a RST. See [Link.Reset].
func (cl *Client) Reset() { cl.each((*Link).Reset) }

// Heal ends all faults of the client's links. See [Link.Heal].
func (cl *Client) Heal() { cl.each((*Link).Heal) }

func (cl *Client) each(f func(*Link)) {
	for _, l := range cl.Links() {
		f(l)
	}
}

// Close closes the etcd client and then its links. It is idempotent, and no error if the etcd client was closed
// before.
func (cl *Client) Close() error {
	cl.closeOnce.Do(func() {
		cl.cluster.disown(cl)
		if err := cl.Client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			cl.closeErr = err
		}
		cl.closeLinks()
	})
	return cl.closeErr
}

func (cl *Client) closeLinks() {
	for i, l := range cl.links {
		if l != nil {
			cl.cluster.members[i].closeClientLink(l)
		}
	}
}
