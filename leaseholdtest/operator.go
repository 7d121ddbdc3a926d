// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The methods of this file are what an operator does behind the back of a service, with a client that goes straight
// to the members, past all faults, and as root under authentication.

// RevokeLease revokes a lease, and so deletes its keys.
func (c *Cluster) RevokeLease(ctx context.Context, id clientv3.LeaseID) error {
	return c.operate(ctx, "revoke a lease", func(cl *clientv3.Client) error {
		_, err := cl.Revoke(ctx, id)
		return err
	})
}

// Delete deletes a key. It returns an error if there is none.
func (c *Cluster) Delete(ctx context.Context, key string) error {
	return c.operate(ctx, "delete a key", func(cl *clientv3.Client) error {
		r, err := cl.Delete(ctx, key)
		if err == nil && r.Deleted == 0 {
			err = fmt.Errorf("no key %q", key)
		}
		return err
	})
}

// DeletePrefix deletes the keys that begin with prefix, and returns how many there were.
func (c *Cluster) DeletePrefix(ctx context.Context, prefix string) (int, error) {
	var n int
	err := c.operate(ctx, "delete keys", func(cl *clientv3.Client) error {
		r, err := cl.Delete(ctx, prefix, clientv3.WithPrefix())
		if err == nil {
			n = int(r.Deleted)
		}
		return err
	})
	return n, err
}

// Overwrite writes a key as a plain put does: an existing key keeps its create revision and loses its lease.
func (c *Cluster) Overwrite(ctx context.Context, key, value string) error {
	return c.operate(ctx, "overwrite a key", func(cl *clientv3.Client) error {
		_, err := cl.Put(ctx, key, value)
		return err
	})
}

// Keys returns the keys that begin with prefix, in order.
func (c *Cluster) Keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	err := c.operate(ctx, "list keys", func(cl *clientv3.Client) error {
		r, err := cl.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			return err
		}
		for _, kv := range r.Kvs {
			keys = append(keys, string(kv.Key))
		}
		return nil
	})
	return keys, err
}

// Compact removes the history before the present revision, which it returns: watches and reads of older revisions fail
// from now on. It returns when the history is gone from the disk. Compacting twice without a write in between is no
// error.
func (c *Cluster) Compact(ctx context.Context) (revision int64, err error) {
	err = c.operate(ctx, "compact", func(cl *clientv3.Client) error {
		r, err := cl.Get(ctx, "\x00", clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		revision = r.Header.Revision
		_, err = cl.Compact(ctx, revision, clientv3.WithCompactPhysical())
		if isCompacted(err) {
			return nil
		}
		return err
	})
	return revision, err
}

// operate runs f with a client that goes straight to the leader: the operator wants the work done, and a member that is
// cut off would only keep it waiting. The client is made for the occasion, because it cannot change its login.
func (c *Cluster) operate(ctx context.Context, what string, f func(*clientv3.Client) error) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return fmt.Errorf("leaseholdtest: %s: %w", what, err)
	}
	o := ClientOptions{
		Members:   []*Member{leader},
		Configure: func(cfg *clientv3.Config) { cfg.Context = ctx }, // a login is bounded by nothing else
	}
	c.mu.Lock()
	if c.auth {
		o.User, o.Password = RootUser, RootPassword
	}
	c.mu.Unlock()
	cl, err := c.NewDirectClient(o)
	if err != nil {
		return fmt.Errorf("leaseholdtest: %s: %w", what, err)
	}
	err = f(cl)
	if closeErr := cl.Close(); err == nil && !errors.Is(closeErr, context.Canceled) {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("leaseholdtest: %s: %w", what, err)
	}
	return nil
}
