// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/namespace"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// Logins that last two seconds, and a user who may touch nothing but the locks. Sessions, holders and waiters outlive
// several logins, on streams that were opened with the first one and on streams that are opened anew.
func TestAuth_EverythingOutlivesTheLogin(t *testing.T) {
	t.Parallel()
	const login = 2 * time.Second
	sc := stage(t, leaseholdtest.Options{AuthTokenTTL: login})
	user := leaseholdtest.User{Name: "locker", Password: "secret", Prefixes: []string{sc.prefix}}
	sc.enableAuth(user)
	cl := sc.ClientWith(t, leaseholdtest.ClientOptions{User: user.Name, Password: user.Password})
	other := sc.ClientWith(t, leaseholdtest.ClientOptions{User: user.Name, Password: user.Password})
	s, holder := sc.session(cl, 15*time.Second), sc.session(other, 15*time.Second)
	g := mustLock(t, holder, "name")
	waiting := lockAside(within(t), s, "name")
	key := sc.awaitLine("name", 2)[1]
	old := mustLock(t, s, "old")
	for i := range 4 {
		time.Sleep(login + login/4) // unused, a login is over after that
		if i == 2 {
			cl.Reset()
		}
		mustRelease(t, mustLock(t, s, "fresh"))
	}
	if err := errors.Join(s.Err(), holder.Err(), old.Err(), g.Err()); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, g)
	next := granted(t, "the waiter", waiting)
	if next.Key() != key {
		t.Errorf("the waiter holds %s, and stood in line as %s", next.Key(), key)
	}
	// The watches live too: an operator's deletion is told.
	if err := sc.Delete(within(t), old.Key()); err != nil {
		t.Fatal(err)
	}
	await(t, "the holder is told", old.Done())
	wantErr(t, "the reason", old.Err(), leasehold.ErrRevoked)
	mustRelease(t, next)
}

// enableAuth turns authentication on and makes the scene's operator the superuser.
func (sc *scene) enableAuth(users ...leaseholdtest.User) {
	sc.t.Helper()
	if err := sc.EnableAuth(within(sc.t), users...); err != nil {
		sc.t.Fatal(err)
	}
	sc.login = leaseholdtest.ClientOptions{User: leaseholdtest.RootUser, Password: leaseholdtest.RootPassword}
}

// What a user may not do fails with etcd's own error, at once, and leaves nothing behind.
func TestAuth_WhatIsForbiddenFailsAtOnce(t *testing.T) {
	t.Parallel()
	sc := stage(t, leaseholdtest.Options{})
	user := leaseholdtest.User{Name: "locker", Password: "secret", Prefixes: []string{sc.prefix + "mine/"}}
	sc.enableAuth(user)
	cl := sc.ClientWith(t, leaseholdtest.ClientOptions{User: user.Name, Password: user.Password})
	s := sc.session(cl, time.Minute)
	for what, lock := range map[string]func(context.Context, string, ...leasehold.LockOption) (*leasehold.Grant, error){"Lock": s.Lock, "TryLock": s.TryLock} {
		_, err := lock(within(t), "theirs")
		wantErr(t, what, err, rpctypes.ErrPermissionDenied)
	}
	mine := mustLock(t, s, "mine")
	// One that is refused does not spoil those that share its transaction.
	forbidden := make([]<-chan result, 20)
	allowed := make([]<-chan result, 20)
	for i := range forbidden {
		forbidden[i] = lockAside(within(t), s, "theirs")
		allowed[i] = lockAside(within(t), s, "mine")
	}
	for _, f := range forbidden {
		wantErr(t, "a lock among others", await(t, "a refusal", f).err, rpctypes.ErrPermissionDenied)
	}
	mustRelease(t, mine)
	for range allowed {
		g, err := firstOf(t, allowed)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, g)
	}
	wrong, err := sc.NewClient(leaseholdtest.ClientOptions{User: user.Name, Password: "wrong", Configure: func(cfg *clientv3.Config) { cfg.Context = within(t) }})
	if err == nil {
		t.Cleanup(func() { _ = wrong.Close() })
		_, err = leasehold.NewSession(within(t), wrong.Client, sc.config(time.Minute))
	}
	wantErr(t, "a wrong password", err, rpctypes.ErrAuthFailed)
}

// firstOf waits for whichever lock in the background comes next.
func firstOf(t *testing.T, locks []<-chan result) (*leasehold.Grant, error) {
	t.Helper()
	var got result
	leaseholdtest.Eventually(t, step, "the next in line has the lock", func() bool {
		for _, l := range locks {
			if r, waits := pending(l); !waits {
				got = r
				return true
			}
		}
		return false
	})
	return got.grant, got.err
}

// A client inside a namespace: every key stays inside, waiters and holders are told what happens to their keys, and a
// client outside that uses the full name stands in the same line.
func TestNamespace_EverythingStaysInside(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	space := sc.prefix + "inside/"
	cl := sc.Client(t)
	cl.KV = namespace.NewKV(cl.KV, space)
	cl.Watcher = namespace.NewWatcher(cl.Watcher, space)
	cl.Lease = namespace.NewLease(cl.Lease, space)
	inside := func(cfg leasehold.Config) leasehold.Config { cfg.Prefix = "locks/"; return cfg }
	s, err := leasehold.NewSession(within(t), cl.Client, inside(sc.config(4*time.Minute)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAtEnd(t, s) })
	cfg := sc.config(4 * time.Minute)
	cfg.Prefix = space + "locks/"
	outside, err := leasehold.NewSession(within(t), sc.Client(t).Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAtEnd(t, outside) })

	before, err := sc.Keys(within(t), "locks/")
	if err != nil {
		t.Fatal(err)
	}
	g := mustLock(t, s, "name")
	second := lockAside(within(t), outside, "name")
	sc.awaitLine("inside/locks/name", 2)
	third := lockAside(within(t), s, "name")
	line := sc.awaitLine("inside/locks/name", 3)
	if line[0] != space+g.Key() || !strings.HasPrefix(g.Key(), "locks/name/") {
		t.Errorf("the grant's key is %s, in etcd %s", g.Key(), line[0])
	}
	if after, err := sc.Keys(within(t), "locks/"); err != nil || len(after) != len(before) {
		t.Errorf("keys outside of the namespace: %q, %v", after, err)
	}
	if resp, err := cl.Txn(within(t)).If(g.Cmp()).Commit(); err != nil || !resp.Succeeded {
		t.Errorf("the guard inside the namespace: %v, %v", resp, err)
	}
	mustRelease(t, g)
	g2 := granted(t, "the client outside", second)
	mustRelease(t, g2)
	g3 := granted(t, "the client inside", third)
	if g2.Token() <= g.Token() || g3.Token() <= g2.Token() {
		t.Errorf("tokens %v, %v, %v", g.Token(), g2.Token(), g3.Token())
	}
	if err := sc.Delete(within(t), space+g3.Key()); err != nil {
		t.Fatal(err)
	}
	await(t, "the holder inside is told", g3.Done())
	wantErr(t, "the reason", g3.Err(), leasehold.ErrRevoked)
}

// The cluster changes under live clients in a way that tokens do not survive: it goes back to a backup, starts again
// from nothing, or is another cluster altogether. All grants are lost and none is handed out, until tokens rise above
// all that were.
func TestCluster_ThatForgetsEndsAllGrants(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what   string
		change func(t *testing.T, sc *scene, saved *leaseholdtest.Saved) error
	}{
		{"rolled back", func(t *testing.T, sc *scene, saved *leaseholdtest.Saved) error { return sc.Rollback(within(t), saved) }},
		{"wiped", func(t *testing.T, sc *scene, _ *leaseholdtest.Saved) error { return sc.Wipe(within(t)) }},
		{"replaced", func(t *testing.T, sc *scene, _ *leaseholdtest.Saved) error { return sc.Replace(within(t)) }},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			sc := stage(t, leaseholdtest.Options{})
			advance := func(n int) {
				t.Helper()
				op := sc.DirectClient(t)
				for range n {
					if _, err := op.Put(within(t), "elsewhere", ""); err != nil {
						t.Fatal(err)
					}
				}
			}
			const ttl = 30 * time.Second
			probe := newProbe()
			cl := probe.client(sc)
			s, pool := sc.session(cl, ttl), sc.pool(cl, ttl)
			early := mustLock(t, s, "early") // in the backup, with its lease
			saved, err := sc.Save(within(t))
			if err != nil {
				t.Fatal(err)
			}
			advance(50)
			g, pooled := mustLock(t, s, "name"), mustLock(t, pool, "pooled")
			waiting := lockAside(within(t), s, "pooled")
			sc.awaitLine("pooled", 2)
			if err := tt.change(t, sc, saved); err != nil {
				t.Fatal(err)
			}

			// Whoever asks first learns it, and all are told.
			for s.Valid() {
				g, err := s.Lock(within(t), "after")
				if err == nil {
					if g.Token() < pooled.Token() {
						t.Fatalf("token %v was handed out after %v", g.Token(), pooled.Token())
					}
					t.Fatalf("a lock was handed out by a session of before")
				}
			}
			r := await(t, "the wait ends", waiting)
			for _, lost := range []*leasehold.Grant{early, g, pooled} {
				await(t, "a grant ends", lost.Done())
				// A cluster of the same id that does not know a lease can say so before anything shows that it forgot.
				if !errors.Is(lost.Err(), leasehold.ErrRevoked) {
					wantEnded(t, lost, leasehold.ErrRolledBack)
				}
			}
			if !errors.Is(r.err, leasehold.ErrRevoked) {
				wantErr(t, "the waiter", r.err, leasehold.ErrRolledBack)
			}
			if tt.what == "replaced" {
				wantEnded(t, g, leasehold.ErrRolledBack) // another id shows in any answer
			}
			renewals := probe.renewed(s.Lease())
			_, err = pool.Lock(within(t), "after")
			wantErr(t, "a lock through the pool", err, leasehold.ErrRolledBack)
			_, err = leasehold.NewSession(within(t), cl.Client, sc.config(ttl))
			wantErr(t, "a new session", err, leasehold.ErrRolledBack)
			if err := s.Close(within(t)); err != nil {
				t.Errorf("close of a lost session: %v", err)
			}

			advance(200) // past all that was seen
			after := mustLock(t, pool, "name")
			if after.Token() <= pooled.Token() {
				t.Errorf("token %v after %v", after.Token(), pooled.Token())
			}
			awaitExtension(t, after)
			if n := probe.renewed(s.Lease()); n > renewals {
				t.Errorf("the lease of a lost session was renewed %d times", n-renewals)
			}
			mustRelease(t, after)
			// In the backup there may be keys of before. Their leases are not renewed; nobody waits that long here.
			if _, err := sc.DeletePrefix(within(t), sc.prefix); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The database is full. Acquires fail with etcd's own error and leave nothing; grants stay valid, are renewed and can be
// given back; afterwards all goes on.
func TestCluster_WithoutSpaceKeepsGrants(t *testing.T) {
	t.Parallel()
	sc := stage(t, leaseholdtest.Options{})
	s := sc.newSession(6 * time.Second)
	pool := sc.pool(sc.Client(t), 6*time.Second)
	g, kept := mustLock(t, s, "name"), mustLock(t, s, "kept")
	waiting := lockAside(within(t), s, "name")
	sc.awaitLine("name", 2)
	if err := sc.RaiseNoSpace(within(t)); err != nil {
		t.Fatal(err)
	}
	_, err := s.Lock(within(t), "other")
	wantErr(t, "lock", err, rpctypes.ErrNoSpace)
	_, err = s.TryLock(within(t), "another")
	wantErr(t, "try", err, rpctypes.ErrNoSpace)
	_, err = pool.Lock(within(t), "other")
	wantErr(t, "lock through the pool", err, rpctypes.ErrNoSpace)
	for range 2 {
		awaitExtension(t, kept)
	}
	mustRelease(t, g)
	mustRelease(t, granted(t, "the waiter", waiting))
	if !kept.Valid() {
		t.Errorf("a grant ended: %v", kept.Err())
	}
	sc.NoKeys(t, sc.prefix+"other/")
	if err := sc.ClearAlarms(within(t)); err != nil {
		t.Fatal(err)
	}
	mustRelease(t, mustLock(t, s, "other"))
	mustRelease(t, mustLock(t, pool, "other"))
	mustRelease(t, kept)
}
