// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// A replica is an elector under test. Its work tells when it starts, and goes on until its context has ended and the
// test lets it return.
type replica struct {
	*leasehold.Elector
	t       testing.TB
	works   chan *work           // each start
	stops   chan leasehold.Token // each OnStoppedLeading
	heard   chan leasehold.Leader
	ran     chan error // what Run has returned
	stop    context.CancelFunc
	current *work // of the work's goroutine
	closing atomic.Bool
}

// A work is one call of OnStartedLeading.
type work struct {
	ctx    context.Context
	l      *leasehold.Leadership
	began  time.Time
	hang   chan struct{} // nil: it returns when ctx ends; otherwise only when this is closed, too
	giveUp chan struct{} // closed: it returns by itself
}

// startReplica runs an elector for the election "name" until the test ends.
func startReplica(t testing.TB, client *clientv3.Client, cfg leasehold.Config, configure func(*replica, *leasehold.ElectorConfig)) *replica {
	t.Helper()
	pool, err := leasehold.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := &replica{
		t: t, works: make(chan *work, 256), stops: make(chan leasehold.Token, 256), heard: make(chan leasehold.Leader, 1024),
		ran: make(chan error, 1),
	}
	ec := leasehold.ElectorConfig{
		Name:             "name",
		OnStartedLeading: func(ctx context.Context, l *leasehold.Leadership) { r.work(ctx, l, nil) },
		OnStoppedLeading: func() { r.stops <- r.current.l.Token() },
		OnNewLeader:      func(l leasehold.Leader) { r.heard <- l },
	}
	if configure != nil {
		configure(r, &ec)
	}
	if r.Elector, err = leasehold.NewElector(pool, ec); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.stop = cancel
	go func() { r.ran <- r.Run(ctx) }()
	t.Cleanup(func() {
		r.closing.Store(true)
		cancel()
		if err := await(t, "Run returns", r.ran); err != nil && !errors.Is(err, leasehold.ErrClosed) {
			t.Errorf("Run: %v", err)
		}
		cctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), step)
		defer cancel()
		if err := pool.Close(cctx); err != nil && !errors.Is(err, leasehold.ErrClosed) {
			t.Errorf("close the client: %v", err)
		}
	})
	return r
}

// work is what a leader of the tests does. hang, if it is not nil, must be closed before it returns.
func (r *replica) work(ctx context.Context, l *leasehold.Leadership, hang chan struct{}) {
	w := &work{ctx: ctx, l: l, began: time.Now(), hang: hang, giveUp: make(chan struct{})}
	r.current = w
	r.works <- w
	select {
	case <-ctx.Done():
	case <-w.giveUp:
		return
	}
	if hang != nil {
		<-hang
	}
}

// leads waits until the replica's work has started.
func (r *replica) leads() *work {
	r.t.Helper()
	return await(r.t, "the replica leads", r.works)
}

// shutDown ends Run and waits for it.
func (r *replica) shutDown() {
	r.t.Helper()
	r.stop()
	err := await(r.t, "Run returns", r.ran)
	if err != nil {
		r.t.Errorf("Run: %v", err)
	}
	r.ran <- err
}
