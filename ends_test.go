// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"example.com/leasehold/leaseholdtest"
)

type stuckCore struct {
	zapcore.LevelEnabler
	stuck chan struct{}
}

func (s stuckCore) With([]zapcore.Field) zapcore.Core { return s }
func (s stuckCore) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return c.AddCore(e, s)
}
func (s stuckCore) Write(zapcore.Entry, []zapcore.Field) error { <-s.stuck; return nil }
func (s stuckCore) Sync() error                                { return nil }

// A log sink that blocks (a full pipe) must not stop the expiry.
func TestBlockedLoggerDoesNotBlockExpiry(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	stuck := make(chan struct{})
	defer close(stuck)
	core := stuckCore{LevelEnabler: zapcore.InfoLevel, stuck: stuck}
	s, err := NewSession(t.Context(), cl.Client, Config{TTL: 2 * time.Second, Logger: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	cl.Blackhole(leaseholdtest.Both)
	time.Sleep(4 * time.Second)
	answered := make(chan bool, 1)
	go func() { answered <- s.Valid() }()
	select {
	case v := <-answered:
		if v {
			t.Error("valid after two terms")
		}
	case <-time.After(2 * time.Second):
		t.Error("Valid blocks behind the logger")
	}
	select {
	case <-s.Done():
	case <-time.After(time.Second):
		t.Error("the context did not end at the expiry")
	}
}

// Do with an ended context returns within a small grace although etcd is silent.
func TestDoReturnsSoonAfterItsContext(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	s := sessionFor(t, cl.Client, Config{TTL: 60 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	var t0 time.Time
	err := s.Do(ctx, "a", func(ctx context.Context, g *Grant) error {
		cl.Blackhole(leaseholdtest.Both)
		cancel()
		t0 = time.Now()
		return ctx.Err()
	})
	if d := time.Since(t0); d > 2*time.Second {
		t.Errorf("Do returned %v after its context ended: %v", d, err)
	}
	cl.Heal()
}

// Client.Close waits for the session that is being opened.
func TestClientCloseDuringOpeningLeavesNothing(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	direct := c.DirectClient(t)
	for i := range 120 {
		cl, err := c.NewDirectClient(leaseholdtest.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(cl, Config{TTL: 60 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); _, _ = p.Lock(t.Context(), "a") }()
		time.Sleep(time.Duration(i) * 40 * time.Microsecond)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		cl.Close()
		<-done
	}
	time.Sleep(2 * time.Second)
	r, err := direct.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Leases) > 0 {
		t.Errorf("%d leases of a minute are left after Close", len(r.Leases))
	}
}

// A session got from the pool is not closed under its user.
func TestPoolDoesNotCloseSessionsHandedOut(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	p, err := New(cl.Client, Config{TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	a, err := p.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.load.Add(perLease) // full
	b, err := p.Session(t.Context())
	if err != nil || a == b {
		t.Fatal(err, a == b)
	}
	a.load.Add(-perLease)
	g, err := b.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Lock(t.Context(), "x"); err != nil {
		t.Errorf("the session handed out was closed under its user: %v", err)
	}
}

// Releasing the last grant of a session that the pool no longer needs is a success.
func TestReleaseOfLastGrantOfSpareSession(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	p, err := New(cl.Client, Config{TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close(context.Background())
	var gs []*Grant
	for i := range perLease + 1 {
		g, err := p.Lock(t.Context(), string(rune('a'+i%26))+string(rune('0'+i/26)))
		if err != nil {
			t.Fatal(err)
		}
		gs = append(gs, g)
	}
	for _, g := range gs[:perLease/2+10] {
		if err := g.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := gs[perLease].Release(t.Context()); err != nil {
		t.Errorf("release of a grant that was held until now: %v", err)
	}
}
