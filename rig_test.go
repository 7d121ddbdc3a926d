// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/etcdfake"
)

// The tests in the files *_bubble_test.go run the whole SDK with etcd's real client against a fake cluster, in a bubble: time
// passes only when everybody waits, so an hour takes as long as what happens in it, and instants are exact.

// A rig is a cluster and one machine with an etcd client. It is itself the test's T.
type rig struct {
	*testing.T
	cluster *etcdfake.Cluster
	client  *clientv3.Client
}

// bubble runs a test on a rig. The network takes no time unless the test says so.
func bubble(t *testing.T, opts etcdfake.Options, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, opts)
		f(&rig{T: t, cluster: c, client: c.Client(t)})
	})
}

// another is a second machine on the same cluster.
func (r *rig) another() *rig {
	return &rig{T: r.T, cluster: r.cluster, client: r.cluster.Client(r.T)}
}

// delay sets how long bytes take to every member and back.
func (r *rig) delay(up, down time.Duration) {
	for i := range r.cluster.Size() {
		r.cluster.Link(r.client, i).SetDelay(up, down)
	}
}

// hold keeps all bytes between this machine and all members in the network; release delivers them.
func (r *rig) hold(up, down bool) {
	for i := range r.cluster.Size() {
		r.cluster.Link(r.client, i).Hold(up, down)
	}
}

func (r *rig) release(up, down bool) {
	for i := range r.cluster.Size() {
		r.cluster.Link(r.client, i).Release(up, down)
	}
}

// open opens a session that the test's end abandons.
func (r *rig) open(cfg Config) *Session {
	r.Helper()
	s, err := NewSession(r.Context(), r.client, cfg)
	if err != nil {
		r.Fatalf("open a session: %v", err)
	}
	r.Cleanup(s.Abandon)
	return s
}

func (r *rig) lock(s *Session, name string) *Grant {
	r.Helper()
	g, err := s.Lock(r.Context(), name)
	if err != nil {
		r.Fatalf("lock %q: %v", name, err)
	}
	return g
}

// within is a context that ends after d.
func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.Context(), d)
	r.Cleanup(cancel)
	return ctx
}

// ended waits for the end of something, for a while at most, and returns how long it took.
func (r *rig) ended(what string, done <-chan struct{}, within time.Duration) time.Duration {
	r.Helper()
	start := time.Now()
	t := time.NewTimer(within)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		r.Fatalf("%s: not ended in %v", what, within)
	}
	return time.Since(start)
}

// result waits for the result of a goroutine, for a minute at most.
func (r *rig) result(what string, got <-chan error) error {
	r.Helper()
	t := time.NewTimer(time.Minute)
	defer t.Stop()
	select {
	case err := <-got:
		return err
	case <-t.C:
		r.Fatalf("%s: no result in a minute", what)
		return nil
	}
}

// must fails the test if an error came where none was to be.
func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// expiryOf is the local expiry in the bubble's time.
func (r *rig) expiryOf(s *Session) time.Time {
	return time.Now().Add(clock.Instant(s.expiry.Load()).Sub(s.clk.Now()))
}

// term is the local term that follows from what was granted.
func term(s *Session) time.Duration { return s.allow.expiry(0, s.granted).Sub(0) }

// renewals are the instants at which renewals of the session arrived at a member.
func (r *rig) renewals(s *Session) []etcdfake.Renewal { return r.cluster.Renewals(s.id) }

// quiet waits until nothing is under way any more at this instant.
func (r *rig) quiet() { synctest.Wait() }

// calls counts the calls of one method that reach any member from now on.
func (r *rig) calls(method string) func() int {
	n := make(chan int, 1)
	n <- 0
	r.cluster.Hook(etcdfake.On(method, func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		n <- <-n + 1
		return next(ctx)
	}))
	return func() int {
		v := <-n
		n <- v
		return v
	}
}

// A gate lets requests of one method be applied and keeps their answers until they are let out, each by itself. What
// is behind a kept answer on the same stream is not applied before.
type gate struct {
	mu    sync.Mutex
	kept  []keptAnswer
	exits []chan struct{}
}

type keptAnswer struct {
	call etcdfake.Call
	at   time.Time // applied
}

// keepAnswers puts up a gate for one method.
func (r *rig) keepAnswers(method string) *gate {
	g := &gate{}
	r.cluster.Hook(etcdfake.On(method, func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		resp, err := next(call.Detached(ctx))
		g.mu.Lock()
		exit := make(chan struct{})
		g.kept = append(g.kept, keptAnswer{call, time.Now()})
		g.exits = append(g.exits, exit)
		g.mu.Unlock()
		select {
		case <-exit:
			return resp, err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}))
	return g
}

// answers are those kept so far, let out or not, in the order in which they were made.
func (g *gate) answers() []keptAnswer {
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.kept)
}

// letOut delivers the i-th answer.
func (g *gate) letOut(i int) {
	g.mu.Lock()
	close(g.exits[i])
	g.mu.Unlock()
	synctest.Wait()
}

// wait sleeps until ready, looking every millisecond, for a minute at most.
func (r *rig) wait(what string, ready func() bool) {
	r.Helper()
	for range 60_000 {
		synctest.Wait()
		if ready() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.Fatalf("waited a minute for %s", what)
}
