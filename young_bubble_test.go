// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// A pool waits before it opens a session if those before it died young: that is a cluster which takes them away. Sessions of
// electors, and those that somebody closed, say nothing of the kind.
func TestClient_BacksOffForSessionsThatDieYoungOnly(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		pool, err := New(r.client, Config{})
		r.must(err)
		took := func() time.Duration {
			start := time.Now()
			g, err := pool.Lock(r.Context(), "a")
			r.must(err)
			defer func() { r.must(g.Release(r.Context())) }()
			return time.Since(start)
		}
		opening := func() time.Duration {
			start := time.Now()
			s, err := pool.Session(r.Context())
			r.must(err)
			defer func() { r.must(s.Close(r.Context())) }()
			return time.Since(start)
		}
		for range 5 {
			opening()
		}
		ran, started, stopped := make(chan error, 1), make(chan *Leadership), make(chan struct{})
		e, err := NewElector(pool, ElectorConfig{Name: "e", OnStartedLeading: func(ctx context.Context, l *Leadership) {
			started <- l
			<-ctx.Done()
			<-stopped
		}})
		r.must(err)
		ctx, stop := context.WithCancel(r.Context())
		go func() { ran <- e.Run(ctx) }()
		for range 5 {
			l := <-started
			r.must(second(r.cluster.Revoke(l.Session().Lease())))
			r.ended("the leadership", l.Done(), time.Minute)
			if d := opening(); d != 0 {
				r.Errorf("an opening waited for %v because of an elector's session, whose work has not stopped yet", d)
			}
			stopped <- struct{}{}
		}
		<-started
		if d := took(); d != 0 {
			r.Errorf("an opening waited for %v because of sessions that were not the pool's or were closed", d)
		}
		g, err := pool.Lock(r.Context(), "b")
		r.must(err)
		r.must(second(r.cluster.Revoke(g.Session().Lease())))
		r.ended("the session", g.Session().Done(), time.Minute)
		if took() == 0 {
			r.Error("an opening did not wait although the session before it died young")
		}
		close(stopped)
		stop()
		r.must(r.result("Run", ran))
		r.must(pool.Close(r.Context()))
	})
}

// A lease that was lost keeps until the grantor would end it; an order that is due goes first.
func TestJanitor_OrdersThatAreDueDoNotWaitForThoseThatAreNot(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		e := s.engine
		start := time.Now()
		for range 2 * revokers {
			e.revokeSoon(1, time.Hour, time.Minute)
		}
		r.quiet()
		lease, err := r.client.Grant(r.Context(), 300)
		r.must(err)
		e.revokeSoon(lease.ID, 3*time.Second, time.Minute)
		gone := func() bool { return len(r.cluster.Leases()) == 1 }
		r.wait("the order in three seconds", gone)
		if d := time.Since(start); d < 3*time.Second || d > 4*time.Second {
			r.Errorf("revoked after %v, want 3s", d)
		}
		lease, err = r.client.Grant(r.Context(), 300)
		r.must(err)
		start = time.Now()
		e.revokeSoon(lease.ID, 0, time.Minute)
		r.wait("the order that is due", gone)
		if d := time.Since(start); d > time.Second {
			r.Errorf("revoked after %v, want at once", d)
		}
		time.Sleep(2 * time.Hour)
		e.janitor.mu.Lock()
		defer e.janitor.mu.Unlock()
		if len(e.janitor.orders) != 0 || e.janitor.revokers != 0 {
			r.Errorf("%d orders and %d revokers are left", len(e.janitor.orders), e.janitor.revokers)
		}
	})
}
