// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func sessionFor(t *testing.T, cl *clientv3.Client, cfg Config) *Session {
	t.Helper()
	s, err := NewSession(t.Context(), cl, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = s.Close(ctx)
	})
	return s
}

func delEvent(key string, rev int64) *mvccpb.Event {
	return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte(key), ModRevision: rev}}
}

func TestWait_DeletionBeforeTheOwnKeyDoesNotMakeFirst(t *testing.T) {
	// The watch of a lagging member replays a deletion older than the own key. The key (of etcd's Mutex, which reuses
	// one key under a session) was put again after it: it is ahead, and alive.
	w := followedLine("d/own", 100, "d/x")
	w.saw([]*mvccpb.Event{delEvent("d/x", 60)})
	if first, _, _, err := w.look(); first || err != nil {
		t.Fatalf("first = %v, error %v, although d/x, created at 70, is still there", first, err)
	}
	w.saw([]*mvccpb.Event{delEvent("d/x", 101)})
	if first, _, _, err := w.look(); !first || err != nil {
		t.Fatalf("first = %v, error %v after the last key ahead went", first, err)
	}
}

// followedLine is a waiter that follows its whole line and has read that the given keys are ahead.
func followedLine(key string, token Token, keys ...string) *waiter {
	w := &waiter{place: &place{key: key, dir: "d/", token: token, signal: make(chan struct{}, 1)}, aim: "d/"}
	w.seen = sightings{whole: true, synced: true, ahead: map[string]bool{}, went: map[string]bool{}}
	for _, k := range keys {
		w.seen.ahead[k] = true
	}
	return w
}

// Young grant, first of its client, key deleted before the watch stream ever opened.
func TestKeyDeletedYoungIsTold(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	direct := c.DirectClient(t)
	s := sessionFor(t, cl.Client, Config{TTL: 2 * time.Second})
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Delete(t.Context(), g.Key()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Done():
	case <-time.After(6 * time.Second):
		s2 := sessionFor(t, direct, Config{TTL: 2 * time.Second})
		g2, err := s2.Lock(t.Context(), "a")
		t.Fatalf("not told after 6 s; old valid=%v; second holder: %v valid=%v", g.Valid(), err, g2.Valid())
	}
}

func TestWait_LineDeletedInOneRevisionMakesNobodyFirst(t *testing.T) {
	bad := 0
	for range 3000 {
		w := followedLine("d/z", 100, "d/a")
		var start atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			start.Store(true)
			for {
				runtime.Gosched()
				first, _, _, err := w.look()
				if first {
					bad++
					return
				}
				if err != nil {
					return
				}
			}
		})
		for !start.Load() {
			runtime.Gosched()
		}
		w.saw([]*mvccpb.Event{delEvent("d/a", 200), delEvent("d/z", 200)})
		wg.Wait()
	}
	if bad > 0 {
		t.Fatalf("%d times first although the own key was deleted in the same revision", bad)
	}
}

// TryLock: the second attempt says locked, the first attempt's answer (applied later, key put) lands before leave.
func TestTryLockLateFirstAttemptLeavesNoKey(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	s := sessionFor(t, cl.Client, Config{TTL: 2 * time.Second})
	p := s.newPlace("a", "v")
	if _, err := cl.Put(t.Context(), p.key, "v", clientv3.WithLease(s.id)); err != nil {
		t.Fatal(err)
	}
	// as land leaves it: two attempts, both answered; the answer taken was "locked"
	p.acquire = &write{tries: 2, put: true, answered: true}
	p.leave()
	leaseholdtest.Eventually(t, 30*time.Second, "the key of the late attempt is deleted", func() bool {
		r, err := cl.Get(t.Context(), p.key)
		return err == nil && len(r.Kvs) == 0
	})
	if !s.Valid() {
		t.Errorf("the key went with its session: %v", s.Err())
	}
}

func enableAuth(t *testing.T, direct *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(direct.RoleAdd(ctx, "root"))
	must(direct.UserAdd(ctx, "root", "r"))
	must(direct.UserGrantRole(ctx, "root", "root"))
	must(direct.RoleAdd(ctx, "u"))
	must(direct.RoleGrantPermission(ctx, "u", "leasehold/", "leasehold0", clientv3.PermissionType(clientv3.PermReadWrite)))
	must(direct.UserAdd(ctx, "u", "u"))
	must(direct.UserGrantRole(ctx, "u", "u"))
	must(direct.AuthEnable(ctx))
}

// A deletion that etcd refuses for a while is not given up while the session renews the key.
func TestRefusedReleaseIsTriedAgain(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	enableAuth(t, c.DirectClient(t))
	root, err := c.NewClient(leaseholdtest.ClientOptions{User: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	cl, err := c.NewClient(leaseholdtest.ClientOptions{User: "u", Password: "u"})
	if err != nil {
		t.Fatal(err)
	}
	s := sessionFor(t, cl.Client, Config{TTL: 2 * time.Second})
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := root.RoleRevokePermission(t.Context(), "u", "leasehold/", "leasehold0"); err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err == nil {
		t.Fatal("etcd should have refused the release")
	}
	if _, err := root.RoleGrantPermission(t.Context(), "u", "leasehold/", "leasehold0", clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
		t.Fatal(err)
	}
	leaseholdtest.Eventually(t, 30*time.Second, "the released key is deleted", func() bool {
		r, err := root.Get(t.Context(), g.Key())
		return err == nil && len(r.Kvs) == 0
	})
	if !s.Valid() {
		t.Errorf("the key went with its session: %v", s.Err())
	}
}

// A watch that was refused for a while is asked for again.
func TestRefusedWatchIsTriedAgain(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	enableAuth(t, c.DirectClient(t))
	root, err := c.NewClient(leaseholdtest.ClientOptions{User: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	cl, err := c.NewClient(leaseholdtest.ClientOptions{User: "u", Password: "u"})
	if err != nil {
		t.Fatal(err)
	}
	s := sessionFor(t, cl.Client, Config{TTL: 20 * time.Second} /* it outlives the refusals */)
	// an older grant keeps the watch stream open and answering
	keep, err := s.Lock(t.Context(), "keep")
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	root.RoleRevokePermission(t.Context(), "u", "leasehold/", "leasehold0")
	time.Sleep(1500 * time.Millisecond)
	root.RoleGrantPermission(t.Context(), "u", "leasehold/", "leasehold0", clientv3.PermissionType(clientv3.PermReadWrite))
	time.Sleep(4 * time.Second)
	if !keep.Valid() || !g.Valid() {
		t.Fatalf("lost by a refused watch: %v, %v", keep.Err(), g.Err())
	}
	if _, err := root.Delete(t.Context(), g.Key()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-g.Done():
	case <-time.After(6 * time.Second):
		t.Fatalf("not told of the deletion 6 s later")
	}
}

// A config that is accepted must be renewable.
func TestAcceptedConfigSurvives(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	s := sessionFor(t, cl.Client, Config{TTL: 2 * time.Second, Margin: time.Second, DriftBound: 0.1})
	select {
	case <-s.Done():
		t.Fatalf("lost without any fault: %v", context.Cause(s.Context()))
	case <-time.After(5 * time.Second):
	}
}

// Opening while the etcd client closes.
func TestOpenDuringClientClose(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	for i := range 150 {
		cl, err := c.NewDirectClient(leaseholdtest.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				s, err := NewSession(t.Context(), cl, Config{TTL: 2 * time.Second})
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Errorf("open: %v", err)
					}
					return
				}
				if err := s.Close(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("close: %v", err)
				}
			})
		}
		time.Sleep(time.Duration(i%50) * 100 * time.Microsecond)
		cl.Close()
		wg.Wait()
	}
}
