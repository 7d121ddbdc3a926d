// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/etcdfake"
)

// asUser runs a test on a cluster with authentication on, as a user who may do everything under the default prefix and
// nothing else.
func asUser(t *testing.T, tokens time.Duration, f func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{Members: 3, Auth: &etcdfake.Auth{
			TokenTTL: tokens,
			Users: map[string]etcdfake.User{
				"root": {Password: "r"},
				"app":  {Password: "a", Prefixes: []string{defaultPrefix}},
			},
		}})
		client := c.Client(t, func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "app", "a" })
		f(&rig{T: t, cluster: c, client: client})
	})
}

// Scenario 26: authentication on, tokens that live for seconds, a user who may touch one prefix only. Nothing is lost, waits go on.
func TestAuth_ShortTokensCostNothing(t *testing.T) {
	asUser(t, 2*time.Second, func(r *rig) {
		s := r.open(Config{TTL: 6 * time.Second})
		held := r.lock(s, "held")
		for i := range 40 {
			g := r.lock(s, "a")
			got := make(chan error, 1)
			go func() {
				g, err := s.Lock(r.Context(), "a")
				if err == nil {
					err = g.Release(r.Context())
				}
				got <- err
			}()
			time.Sleep(time.Duration(i%7) * time.Second) // longer and shorter than a token lives
			if i%5 == 0 {
				r.cluster.ExpireTokens()
			}
			r.must(g.Release(r.Context()))
			r.must(r.result("the waiter", got))
		}
		if !held.Valid() {
			r.Errorf("lost: %v", held.Err())
		}
		r.must(second(r.cluster.Delete(held.Key()))) // its watch has survived, too
		if d := r.ended("the grant", held.Done(), time.Minute); d > 5*time.Second {
			r.Errorf("told after %v", d)
		}
	})
}

// What may not be touched is refused at once, with etcd's error; the session and its other grants stay.
func TestAuth_ARefusedNameIsAnErrorAndNothingElse(t *testing.T) {
	asUser(t, time.Minute, func(r *rig) {
		mine := r.open(Config{})
		g := r.lock(mine, "a")
		foreign := r.open(Config{Prefix: "others/"})
		start := time.Now()
		for name, err := range map[string]error{
			"Lock":    second(foreign.Lock(r.within(10*time.Second), "a")),
			"TryLock": second(foreign.TryLock(r.within(10*time.Second), "a")),
		} {
			if !errors.Is(err, rpctypes.ErrPermissionDenied) {
				r.Errorf("%s: %v, want etcd's refusal", name, err)
			}
		}
		if d := time.Since(start); d > time.Second {
			r.Errorf("refused after %v", d)
		}
		time.Sleep(time.Minute)
		if !g.Valid() || !mine.Valid() || !foreign.Valid() {
			r.Errorf("others: %v, %v, %v", g.Err(), mine.Err(), foreign.Err())
		}
	})
}

// Scenario 35: with the space alarm raised, an acquire is refused with etcd's error; what is held stays held, is renewed, and can be
// released.
func TestNoSpace_RefusesAcquiresAndNothingElse(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		r.cluster.SetNoSpace(true)
		for i := range 3 {
			if err := second(s.Lock(r.within(10*time.Second), fmt.Sprint("b", i))); !errors.Is(err, rpctypes.ErrNoSpace) {
				r.Errorf("Lock: %v, want ErrNoSpace", err)
			}
			if err := second(s.TryLock(r.within(10*time.Second), fmt.Sprint("b", i))); !errors.Is(err, rpctypes.ErrNoSpace) {
				r.Errorf("TryLock: %v, want ErrNoSpace", err)
			}
		}
		if err := second(NewSession(r.within(10*time.Second), r.client, Config{})); !errors.Is(err, rpctypes.ErrNoSpace) {
			r.Errorf("NewSession: %v, want ErrNoSpace", err)
		}
		time.Sleep(5 * time.Minute)
		if !g.Valid() {
			r.Fatalf("lost: %v", g.Err())
		}
		r.must(g.Release(r.Context()))
		if keys := r.cluster.Keys(""); len(keys) != 0 {
			r.Errorf("keys left: %v", keys)
		}
		r.cluster.SetNoSpace(false)
		r.must(r.lock(s, "a").Release(r.Context()))
	})
}

// A server that takes fewer operations than we would send at once costs a few requests more, and no acquire.
func TestTooManyOps_OfASharedTransactionIsNoError(t *testing.T) {
	bubble(t, etcdfake.Options{MaxTxnOps: 9}, func(r *rig) {
		s := r.open(Config{})
		r.delay(time.Millisecond, time.Millisecond)
		got := make(chan error, 200)
		for i := range 200 {
			go func() {
				g, err := s.Lock(r.Context(), fmt.Sprint(i))
				if err == nil {
					err = g.Release(r.Context())
				}
				got <- err
			}()
		}
		for range 200 {
			r.must(r.result("an acquire", got))
		}
		if keys := r.cluster.Keys(""); len(keys) != 0 || !s.Valid() {
			r.Errorf("keys left: %d, session %v", len(keys), s.Err())
		}
	})
}
