// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"example.com/leasehold/leaseholdtest"
)

func sessionFor(t *testing.T, cl *clientv3.Client, cfg Config) *Session {
	t.Helper()
	s, err := NewSession(t.Context(), cl, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
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

// told waits until the holder has been told that its key was taken. The term is longer than that, so that no renewal tells.
func told(t *testing.T, g *Grant) {
	t.Helper()
	leaseholdtest.Eventually(t, time.Minute, "the holder is told", func() bool { return !g.Valid() })
	if !errors.Is(g.Err(), ErrRevoked) {
		t.Errorf("the grant ended with %v, want %v", g.Err(), ErrRevoked)
	}
}

// A young grant, the first of its client: its key is deleted before there is any watch stream.
func TestGrant_YoungIsToldThatItsKeyWasDeleted(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	s := sessionFor(t, c.Client(t).Client, Config{TTL: maxTTL})
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), g.Key()); err != nil {
		t.Fatal(err)
	}
	told(t, g)
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
	s := sessionFor(t, cl.Client, Config{TTL: time.Minute})
	p := s.newPlace("a", "v")
	if _, err := cl.Put(t.Context(), p.key, "v", clientv3.WithLease(s.id)); err != nil {
		t.Fatal(err)
	}
	// as land leaves it: two attempts, both answered; the answer taken was "locked"
	p.acquire = &write{tries: 2, put: true, answered: true}
	p.leave()
	leaseholdtest.Eventually(t, time.Minute, "the key of the late attempt is deleted", func() bool {
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
	s := sessionFor(t, cl.Client, Config{TTL: time.Minute})
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
	leaseholdtest.Eventually(t, time.Minute, "the released key is deleted", func() bool {
		r, err := root.Get(t.Context(), g.Key())
		return err == nil && len(r.Kvs) == 0
	})
	if !s.Valid() {
		t.Errorf("the key went with its session: %v", s.Err())
	}
}

// watchAnswers is an interceptor that notes what the server answers to the creation of watches.
type watchAnswers struct {
	grpc.ClientStream
	created, refused *atomic.Int32
}

func (w *watchAnswers) RecvMsg(m any) error {
	err := w.ClientStream.RecvMsg(m)
	if resp, ok := m.(*pb.WatchResponse); ok && err == nil && resp.GetCreated() {
		if resp.GetCanceled() {
			w.refused.Add(1)
		} else {
			w.created.Add(1)
		}
	}
	return err
}

// A watch that was refused for a while is asked for again.
func TestRefusedWatchIsTriedAgain(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	enableAuth(t, c.DirectClient(t))
	root, err := c.NewClient(leaseholdtest.ClientOptions{User: "root", Password: "r"})
	if err != nil {
		t.Fatal(err)
	}
	var created, refused atomic.Int32
	listen := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return &watchAnswers{s, &created, &refused}, err
	}
	cl, err := c.NewClient(leaseholdtest.ClientOptions{
		User: "u", Password: "u", DialOptions: []grpc.DialOption{grpc.WithChainStreamInterceptor(listen)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := sessionFor(t, cl.Client, Config{TTL: maxTTL})
	keep, err := s.Lock(t.Context(), "keep")
	if err != nil {
		t.Fatal(err)
	}
	leaseholdtest.Eventually(t, time.Minute, "there is a watch stream", func() bool { return created.Load() > 0 })
	// Grants are put under watch when they have grown a second old; permission is taken before that, unless this machine is slower.
	grants := []*Grant{keep}
	for refused.Load() == 0 {
		before := created.Load()
		g, err := s.Lock(t.Context(), fmt.Sprint(len(grants)))
		if err != nil {
			t.Fatal(err)
		}
		grants = append(grants, g)
		if _, err := root.RoleRevokePermission(t.Context(), "u", "leasehold/", "leasehold0"); err != nil {
			t.Fatal(err)
		}
		leaseholdtest.Eventually(t, time.Minute, "the watch is answered", func() bool { return refused.Load() > 0 || created.Load() > before })
		if _, err := root.RoleGrantPermission(t.Context(), "u", "leasehold/", "leasehold0", clientv3.PermissionType(clientv3.PermReadWrite)); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range grants {
		if !g.Valid() {
			t.Fatalf("lost by a refused watch: %v", g.Err())
		}
	}
	last := grants[len(grants)-1]
	if _, err := root.Delete(t.Context(), last.Key()); err != nil {
		t.Fatal(err)
	}
	told(t, last)
}
