// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
)

// A fleet is moved over to this package one process at a time: some take the lock with etcd's own Mutex, some with etcdctl,
// some with ours. They exclude each other, and take turns in the order in which they came.
func TestFleet_OldAndNewTakeTurnsInOrder(t *testing.T) {
	t.Parallel()
	sc := trio.scene(t)
	kinds := []func() member{sc.ours, sc.theirs, sc.command, sc.ours, sc.ours, sc.command, sc.theirs, sc.theirs, sc.ours, sc.command}
	turns := make(chan int)
	var members []member
	for i, kind := range kinds {
		m := kind()
		members = append(members, m)
		go func() {
			if err := m.lock(within(t)); err != nil {
				t.Errorf("member %d: %v", i, err)
			}
			turns <- i
		}()
		sc.awaitLine("nightly", i+1) // so that the next one comes after it
	}
	for want := range members {
		if got := await(t, "the next turn", turns); got != want {
			t.Fatalf("it is the turn of member %d, want %d", got, want)
		}
		// While one holds the lock, nobody else of any kind has it.
		if n := len(sc.line("nightly")); n != len(members)-want {
			t.Errorf("%d are in line, want %d", n, len(members)-want)
		}
		if err := members[want].unlock(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TryLock respects every kind of holder, and every kind respects a holder of ours.
func TestFleet_TryLockRespectsOldHolders(t *testing.T) {
	t.Parallel()
	sc := trio.scene(t)
	s := sc.newSession(time.Minute)
	for what, kind := range map[string]func() member{"Mutex": sc.theirs, "etcdctl": sc.command} {
		m := kind()
		if err := m.lock(within(t)); err != nil {
			t.Fatal(err)
		}
		_, err := s.TryLock(within(t), "nightly")
		wantErr(t, "TryLock while "+what+" holds the lock", err, leasehold.ErrLocked)
		if err := m.unlock(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	g := mustLock(t, s, "nightly")
	old := sc.mutex()
	wantErr(t, "Mutex.TryLock", old.TryLock(within(t)), concurrency.ErrLocked)
	mustRelease(t, g)
	if err := old.TryLock(within(t)); err != nil {
		t.Errorf("Mutex.TryLock on a free lock: %v", err)
	}
	if err := old.Unlock(within(t)); err != nil {
		t.Error(err)
	}
}

// A key without any prefix that could be one of ours is reached by a prefix that ends inside of it.
func TestFleet_APrefixCanEndInsideAName(t *testing.T) {
	t.Parallel()
	sc := trio.scene(t)
	cfg := sc.config(time.Minute)
	cfg.Prefix += "night"
	s, err := leasehold.NewSession(within(t), sc.Client(t).Client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	old := sc.mutex()
	g := mustLock(t, s, "ly")
	wantErr(t, "Mutex.TryLock", old.TryLock(within(t)), concurrency.ErrLocked)
	mustRelease(t, g)
	if err := old.TryLock(within(t)); err != nil {
		t.Fatal(err)
	}
	_, err = s.TryLock(within(t), "ly")
	wantErr(t, "TryLock", err, leasehold.ErrLocked)
	if err := old.Unlock(within(t)); err != nil {
		t.Error(err)
	}
	if err := s.Close(within(t)); err != nil {
		t.Error(err)
	}
}

// member is one process of a fleet.
type member struct {
	lock, unlock func(ctx context.Context) error
}

func (sc *scene) ours() member {
	s := sc.newSession(time.Minute)
	var g *leasehold.Grant
	return member{
		lock: func(ctx context.Context) (err error) {
			g, err = s.Lock(ctx, "nightly")
			return err
		},
		unlock: func(ctx context.Context) error {
			if !g.Valid() {
				return fmt.Errorf("lost: %w", g.Err())
			}
			return g.Release(ctx)
		},
	}
}

func (sc *scene) mutex() *concurrency.Mutex {
	sc.t.Helper()
	s, err := concurrency.NewSession(sc.Client(sc.t).Client, concurrency.WithTTL(60))
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { _ = s.Close() })
	return concurrency.NewMutex(s, sc.prefix+"nightly")
}

func (sc *scene) theirs() member {
	m := sc.mutex()
	return member{m.Lock, m.Unlock}
}

// command does what `etcdctl lock` does, step by step: a key named by its lease, and a wait until it is the oldest.
func (sc *scene) command() member {
	cl := sc.Client(sc.t).Client
	lease, err := cl.Grant(within(sc.t), 60)
	if err != nil {
		sc.t.Fatal(err)
	}
	dir := sc.prefix + "nightly/"
	key := fmt.Sprintf("%s%x", dir, lease.ID)
	return member{
		lock: func(ctx context.Context) error {
			if _, err := cl.Put(ctx, key, "", clientv3.WithLease(lease.ID)); err != nil {
				return err
			}
			for {
				oldest, err := cl.Get(ctx, dir, clientv3.WithFirstCreate()...)
				if err != nil || string(oldest.Kvs[0].Key) == key {
					return err
				}
				time.Sleep(5 * time.Millisecond)
			}
		},
		unlock: func(ctx context.Context) error {
			_, err := cl.Revoke(ctx, lease.ID)
			return err
		},
	}
}
