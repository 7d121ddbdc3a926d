// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The superuser under authentication.
const (
	RootUser     = "root"
	RootPassword = "root"
)

// User is an account under authentication. A role of the same name gives it its rights.
type User struct {
	// Name and Password are the login, see [ClientOptions].
	Name, Password string
	// Prefixes are those of the keys that the user may read and write; "" stands for all keys.
	Prefixes []string
}

// EnableAuth turns authentication on, with root and the given users, and waits until all running members ask for
// it. Calls of clients without a login fail from then on. The life of a login is [Options.AuthTokenTTL].
func (c *Cluster) EnableAuth(ctx context.Context, users ...User) error {
	err := c.operate(ctx, "enable authentication", func(cl *clientv3.Client) error {
		if err := addRoot(ctx, cl); err != nil {
			return err
		}
		for _, u := range users {
			if err := u.add(ctx, cl); err != nil {
				return fmt.Errorf("add user %q: %w", u.Name, err)
			}
		}
		_, err := cl.AuthEnable(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return c.setAuth(ctx, true)
}

// DisableAuth turns authentication off again. The users stay.
func (c *Cluster) DisableAuth(ctx context.Context) error {
	err := c.operate(ctx, "disable authentication", func(cl *clientv3.Client) error {
		_, err := cl.AuthDisable(ctx)
		return err
	})
	if err != nil {
		return err
	}
	return c.setAuth(ctx, false)
}

// AddUser adds a user while the cluster runs, and waits until all running members know it.
func (c *Cluster) AddUser(ctx context.Context, u User) error {
	err := c.operate(ctx, "add a user", func(cl *clientv3.Client) error { return u.add(ctx, cl) })
	if err != nil {
		return err
	}
	return c.Settle(ctx)
}

// setAuth notes how the operator must connect, and waits until all members agree.
func (c *Cluster) setAuth(ctx context.Context, on bool) error {
	c.mu.Lock()
	c.auth = on
	c.mu.Unlock()
	return c.Settle(ctx) // a login at a member that has not heard yet counts for nothing
}

// addRoot makes the user root, unless it has been made before. The server makes the role.
func addRoot(ctx context.Context, cl *clientv3.Client) error {
	if _, err := cl.UserAdd(ctx, RootUser, RootPassword); err != nil && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
		return err
	}
	if _, err := cl.RoleAdd(ctx, RootUser); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) {
		return err
	}
	_, err := cl.UserGrantRole(ctx, RootUser, RootUser)
	return err
}

func (u User) add(ctx context.Context, cl *clientv3.Client) error {
	if _, err := cl.UserAdd(ctx, u.Name, u.Password); err != nil {
		return err
	}
	if _, err := cl.RoleAdd(ctx, u.Name); err != nil {
		return err
	}
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	for _, p := range u.Prefixes {
		from, end := p, clientv3.GetPrefixRangeEnd(p)
		if p == "" {
			from, end = "\x00", "\x00" // all keys
		}
		if _, err := cl.RoleGrantPermission(ctx, u.Name, from, end, readWrite); err != nil {
			return err
		}
	}
	_, err := cl.UserGrantRole(ctx, u.Name, u.Name)
	return err
}

func isCompacted(err error) bool { return errors.Is(err, rpctypes.ErrCompacted) }
