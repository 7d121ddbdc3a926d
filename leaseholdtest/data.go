// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Saved is a copy of the data of all members, made by [Cluster.Save]. It lives as long as its cluster.
type Saved struct {
	cluster *Cluster
	dir     string
	token   string
	auth    bool
}

// Save copies the data of all members, for [Cluster.Rollback]. Files that a server writes cannot be copied, so it stops
// the members for a moment, in order, and starts those again that ran.
func (c *Cluster) Save(ctx context.Context) (*Saved, error) {
	c.mu.Lock()
	c.saves++
	s := &Saved{cluster: c, dir: filepath.Join(c.dir, "saved"+strconv.Itoa(c.saves)), token: c.token, auth: c.auth}
	c.mu.Unlock()
	err := c.whileDown(ctx, downtime{
		takeDown: func(m *Member) { m.stop(false) },
		do:       func(m *Member) error { return os.CopyFS(filepath.Join(s.dir, m.name), os.DirFS(m.dir)) },
		bringUp:  (*Member).Running,
	})
	if err != nil {
		return nil, fmt.Errorf("leaseholdtest: save: %w", err)
	}
	return s, nil
}

// Rollback kills all members and starts them again with saved data: a cluster that was restored from a backup. Its
// clients see the same cluster, at the same ports, go back in time. Everything since is forgotten; leases that were
// alive when the data was saved start again with their full term. The data can be used again.
func (c *Cluster) Rollback(ctx context.Context, s *Saved) error {
	if s.cluster != c {
		return errors.New("leaseholdtest: roll back: the data is another cluster's")
	}
	c.become(s.token, s.auth)
	err := c.whileDown(ctx, downtime{
		takeDown: (*Member).kill,
		do: func(m *Member) error {
			if err := os.RemoveAll(m.dir); err != nil {
				return err
			}
			return os.CopyFS(m.dir, os.DirFS(filepath.Join(s.dir, m.name)))
		},
		bringUp: always,
	})
	if err != nil {
		return fmt.Errorf("leaseholdtest: roll back: %w", err)
	}
	return nil
}

// Wipe kills all members and starts them again without data: a cluster that has lost its disks and was made anew from
// the same configuration. Its clients see a cluster of the same id, at the same ports, whose revisions start again
// from 1.
func (c *Cluster) Wipe(ctx context.Context) error {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	if err := c.startAnew(ctx, token); err != nil {
		return fmt.Errorf("leaseholdtest: wipe: %w", err)
	}
	return nil
}

// Replace does as [Cluster.Wipe], and gives the cluster another id: another cluster behind the same endpoints.
func (c *Cluster) Replace(ctx context.Context) error {
	c.mu.Lock()
	c.replaced++
	token := "leaseholdtest-" + strconv.Itoa(c.replaced)
	c.mu.Unlock()
	if err := c.startAnew(ctx, token); err != nil {
		return fmt.Errorf("leaseholdtest: replace: %w", err)
	}
	return nil
}

func (c *Cluster) startAnew(ctx context.Context, token string) error {
	c.become(token, false)
	return c.whileDown(ctx, downtime{
		takeDown: (*Member).kill,
		do:       func(m *Member) error { return os.RemoveAll(m.dir) },
		bringUp:  always,
	})
}

// become notes which cluster the members are to be from their next start, and whether it asks for a login.
func (c *Cluster) become(token string, auth bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.auth = token, auth
}

// downtime is what happens while all members are down.
type downtime struct {
	takeDown func(*Member)
	do       func(*Member) error
	bringUp  func(*Member) bool // asked before the member is taken down
}

func always(*Member) bool { return true }

// whileDown takes all members down, does what is to be done for each, brings members up again and waits until they
// serve. Nobody else can start or stop a member meanwhile. If something fails, the members stay down.
func (c *Cluster) whileDown(ctx context.Context, d downtime) error {
	if err := c.lockAll(ctx); err != nil {
		return err
	}
	runs, err := c.passLocked(d)
	for _, m := range c.members {
		m.unlock()
	}
	if err != nil {
		return err
	}
	return c.eachMember(func(m *Member) error {
		if runs[m.index] == nil {
			return nil
		}
		return m.waitReady(ctx, runs[m.index])
	})
}

// lockAll takes the life of every member, or none.
func (c *Cluster) lockAll(ctx context.Context) error {
	for i, m := range c.members {
		if err := m.lock(ctx); err != nil {
			for _, locked := range c.members[:i] {
				locked.unlock()
			}
			return err
		}
	}
	return nil
}

// passLocked is the downtime itself. It returns the new runs of those members that were brought up.
func (c *Cluster) passLocked(d downtime) ([]*server, error) {
	up := make([]bool, len(c.members))
	for i, m := range c.members {
		up[i] = d.bringUp(m)
	}
	err := c.eachMember(func(m *Member) error {
		d.takeDown(m)
		return d.do(m)
	})
	if err != nil {
		return nil, err
	}
	runs := make([]*server, len(c.members))
	err = c.eachMember(func(m *Member) (err error) {
		if up[m.index] {
			runs[m.index], err = m.launch()
		}
		return err
	})
	return runs, err
}
