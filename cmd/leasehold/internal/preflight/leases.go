// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases compares the term that is asked for with the one that is granted.
func (c *checker) leases(ctx context.Context) {
	granted := func(ttl time.Duration) (time.Duration, error) {
		ctx, cancel := context.WithTimeout(ctx, c.Step)
		defer cancel()
		resp, err := c.Client.Grant(ctx, int64(ttl/time.Second))
		if err != nil {
			return 0, err
		}
		_, err = c.Client.Revoke(ctx, resp.ID)
		return time.Duration(resp.TTL) * time.Second, err
	}
	var err error
	if c.GrantedTTL, err = granted(c.TTL); err != nil {
		c.add(Failure, "lease", "cannot be granted and revoked: "+err.Error())
		return
	}
	if c.GrantedTTL != c.TTL {
		c.add(Warning, "lease", fmt.Sprintf("asked for %s, granted %s", c.TTL, c.GrantedTTL))
	} else {
		c.add(OK, "lease", fmt.Sprintf("granted as asked, %s", c.GrantedTTL))
	}
	if c.LeastTTL, err = granted(time.Second); err != nil {
		c.LeastTTL = 0
		return
	}
	// The least TTL is 1.5 election timeouts, rounded up.
	c.election = c.LeastTTL * 2 / 3
	c.add(Note, "lease", fmt.Sprintf("the shortest that this cluster grants is %s: its election timeout is at most %s", c.LeastTTL, c.election.Round(time.Millisecond)))
}

// permissions tries what a session and a lock do, below the prefix.
func (c *checker) permissions(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 4*c.Step)
	defer cancel()
	lease, err := c.Client.Grant(ctx, int64(c.TTL/time.Second))
	if err != nil {
		return // it has been said
	}
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Step)
		defer cancel()
		_, _ = c.Client.Revoke(rctx, lease.ID) // it ends by itself otherwise, with all that it carries
	}()
	dir := fmt.Sprintf("%sleasehold check %d/", c.Prefix, os.Getpid())
	key := fmt.Sprintf("%s%x-0", dir, int64(lease.ID))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	steps := []struct {
		what string
		do   func() error
	}{
		{"put a key under a lease", func() error {
			_, err := c.Client.Txn(ctx).Then(clientv3.OpPut(key, "check", clientv3.WithLease(lease.ID)), clientv3.OpGet(dir, clientv3.WithPrefix())).Commit()
			return err
		}},
		{"read a line", func() error { _, err := c.Client.Get(ctx, dir, clientv3.WithPrefix()); return err }},
		{"watch a line", func() error {
			created := <-c.Client.Watch(clientv3.WithRequireLeader(watching), dir, clientv3.WithPrefix(), clientv3.WithCreatedNotify())
			if err := created.Err(); err != nil {
				return err
			}
			return ctx.Err()
		}},
		{"delete a key", func() error {
			_, err := c.Client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), ">", 0)).Then(clientv3.OpDelete(key)).Commit()
			return err
		}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			c.add(Failure, "permission", fmt.Sprintf("to %s below %q: %s", s.what, c.Prefix, rpctypes.ErrorDesc(err)))
			return
		}
	}
	c.add(OK, "permission", fmt.Sprintf("to lock, wait and release below %q", c.Prefix))
}
