// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func TestEnableAuth_KeepsUsersToTheirPrefixes(t *testing.T) {
	for _, members := range []int{1, 3} {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
		must(t, c.EnableAuth(within(t, long),
			leaseholdtest.User{Name: "alice", Password: "secret", Prefixes: []string{"a/", "shared/"}},
			leaseholdtest.User{Name: "all", Password: "secret", Prefixes: []string{""}},
			leaseholdtest.User{Name: "none", Password: "secret"}))
		must(t, c.AddUser(within(t, long), leaseholdtest.User{Name: "bob", Password: "secret", Prefixes: []string{"b/"}}))
		for _, try := range []struct {
			user, key string
			want      error
		}{
			{"alice", "a/key", nil},
			{"alice", "shared/key", nil},
			{"alice", "b/key", rpctypes.ErrPermissionDenied},
			{"bob", "b/key", nil},
			{"all", "anything", nil},
			{"none", "a/key", rpctypes.ErrPermissionDenied},
			{leaseholdtest.RootUser, "b/key", nil},
			{"", "a/key", rpctypes.ErrUserEmpty},
		} {
			o := leaseholdtest.ClientOptions{User: try.user, Password: "secret"}
			if try.user == leaseholdtest.RootUser {
				o.Password = leaseholdtest.RootPassword
			}
			cl := c.ClientWith(t, o)
			if err := put(within(t, long), cl, try.key); !errors.Is(err, try.want) {
				t.Errorf("%d members: %q puts %q: %v, want %v", members, try.user, try.key, err, try.want)
			}
		}
		// The operator still gets through, and as it was afterwards.
		must(t, c.Delete(within(t, long), "a/key"))
		must(t, c.DisableAuth(within(t, long)))
		must(t, <-putting(t, c.Client(t)))
		must(t, c.Delete(within(t, long), "key"))
		must(t, c.EnableAuth(within(t, long))) // again, with the users of before
		if _, err := c.Client(t).Get(within(t, long), "key"); !errors.Is(err, rpctypes.ErrUserEmpty) {
			t.Errorf("without a login after the second enabling: %v, want %v", err, rpctypes.ErrUserEmpty)
		}
	}
}

// A login that is not used for its term is forgotten: a stream that is opened with it then fails.
func TestAuthTokenTTL_ForgetsLogins(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{AuthTokenTTL: time.Second})
	must(t, c.EnableAuth(within(t, long), leaseholdtest.User{Name: "alice", Password: "secret", Prefixes: []string{"a/"}}))
	cl := c.ClientWith(t, leaseholdtest.ClientOptions{User: "alice", Password: "secret"})
	_, err := cl.Put(within(t, long), "a/key", "value")
	must(t, err)
	ctx := within(t, long)
	tick := time.NewTicker(2500 * time.Millisecond) // a look in between would refresh the login
	defer tick.Stop()
	for {
		<-tick.C
		w, ok := <-cl.Watch(ctx, "a/key", clientv3.WithCreatedNotify())
		if !ok {
			t.Fatal("the login is never forgotten")
		}
		if w.Err() != nil {
			break
		}
	}
	_, err = cl.Put(within(t, long), "a/key", "value") // a plain call logs in again
	must(t, err)
}
