// SPDX-License-Identifier: Apache-2.0

// Package etcd runs clusters of embedded etcd servers with the timing of production, a process for each member: what a
// member costs can be read, and a member can be killed.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/bench/internal/proc"
)

// Options describe a cluster.
type Options struct {
	Members int
	Fsync   bool          // flush the log to the disk before a write is acknowledged, as in production
	RTT     time.Duration // added to each round trip between clients and members; 0: clients connect to the members themselves
	Dir     string        // where to make the folder for the data; "": where temporary files go
}

// Cluster is a running cluster.
type Cluster struct {
	Endpoints []string // where clients find the members, in their order
	members   []*proc.Process
	relay     *proc.Process // nil without an added round trip
	dir       string
}

// Start starts a cluster and waits until each member serves.
func Start(ctx context.Context, o Options) (c *Cluster, err error) {
	c = &Cluster{members: make([]*proc.Process, o.Members)}
	if c.dir, err = os.MkdirTemp(o.Dir, "leasehold-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	ports, err := freePorts(2 * o.Members)
	if err != nil {
		return c, err
	}
	var peers []string
	for i := range o.Members {
		c.Endpoints = append(c.Endpoints, "http://"+ports[i])
		peers = append(peers, fmt.Sprintf("m%d=http://%s", i, ports[o.Members+i]))
	}
	var wg sync.WaitGroup
	errs := make([]error, o.Members)
	for i := range o.Members {
		wg.Go(func() {
			c.members[i], errs[i] = proc.Start(MemberRole, memberArgs{
				Name: fmt.Sprintf("m%d", i), Dir: filepath.Join(c.dir, fmt.Sprintf("m%d", i)), Fsync: o.Fsync,
				Client: c.Endpoints[i], Peer: "http://" + ports[o.Members+i], Cluster: strings.Join(peers, ","),
			})
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	if o.RTT > 0 {
		if c.relay, err = proc.Start(RelayRole, relayArgs{Targets: ports[:o.Members], Delay: o.RTT / 2}); err != nil {
			return c, err
		}
		var addresses []string
		if err := c.relay.Ask("addresses", nil, &addresses); err != nil {
			return c, err
		}
		for i, a := range addresses {
			c.Endpoints[i] = "http://" + a
		}
	}
	return c, nil
}

// freePorts returns addresses on the loopback interface on which nothing listens now.
func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // at the end, so that no port is found twice
		ports = append(ports, l.Addr().String())
	}
	return ports, nil
}

// Usage is the processor time that all living members together have used so far.
func (c *Cluster) Usage() (proc.Usage, error) {
	var sum proc.Usage
	for _, m := range c.members {
		if m == nil {
			continue
		}
		u, err := m.Usage()
		if err != nil {
			return proc.Usage{}, err
		}
		sum.User += u.User
		sum.System += u.System
		sum.Resident += u.Resident
	}
	return sum, nil
}

// Leader returns the place of the leader among the members.
func (c *Cluster) Leader(ctx context.Context, client *clientv3.Client) (int, error) {
	for i, endpoint := range c.Endpoints {
		if c.members[i] == nil {
			continue
		}
		status, err := client.Status(ctx, endpoint)
		if err != nil {
			return 0, fmt.Errorf("status of %s: %w", endpoint, err)
		}
		if status.Leader == status.Header.MemberId {
			return i, nil
		}
	}
	return 0, errors.New("no member leads")
}

// Kill ends a member with SIGKILL.
func (c *Cluster) Kill(member int) {
	c.members[member].Kill()
	c.members[member] = nil
}

// Close stops the members and removes their data.
func (c *Cluster) Close() error {
	var wg sync.WaitGroup
	for _, p := range append(c.members, c.relay) {
		if p != nil {
			wg.Go(p.Kill) // nobody wants their data in order
		}
	}
	wg.Wait()
	return os.RemoveAll(c.dir)
}
