// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

func TestConfig_OutOfBoundsIsRefusedWithEveryProblem(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	cl := sc.Client(t)
	tests := []struct {
		what  string
		cfg   leasehold.Config
		wants []string // in the message
	}{
		{"TTL too short", leasehold.Config{TTL: time.Second - 1}, []string{"TTL"}},
		{"TTL negative", leasehold.Config{TTL: -time.Second}, []string{"TTL"}},
		{"TTL too long", leasehold.Config{TTL: 5*time.Minute + 1}, []string{"TTL"}},
		{"drift too small", leasehold.Config{DriftBound: 1e-7}, []string{"DriftBound"}},
		{"drift too large", leasehold.Config{DriftBound: 0.11}, []string{"DriftBound"}},
		{"drift negative", leasehold.Config{DriftBound: -1e-3}, []string{"DriftBound"}},
		{"drift not a number", leasehold.Config{DriftBound: math.NaN()}, []string{"DriftBound"}},
		{"drift infinite", leasehold.Config{DriftBound: math.Inf(1)}, []string{"DriftBound"}},
		{"margin negative", leasehold.Config{Margin: -1}, []string{"Margin"}},
		{"margin over half the TTL", leasehold.Config{TTL: 2 * time.Second, Margin: time.Second + 1}, []string{"Margin"}},
		{"prefix too long", leasehold.Config{Prefix: strings.Repeat("p", 1025)}, []string{"Prefix"}},
		{"prefix not UTF-8", leasehold.Config{Prefix: "p\xff"}, []string{"Prefix"}},
		{"holder too long", leasehold.Config{Holder: strings.Repeat("h", 4097)}, []string{"Holder"}},
		{
			"everything at once",
			leasehold.Config{TTL: time.Millisecond, DriftBound: 1, Margin: time.Hour, Prefix: "\xff", Holder: strings.Repeat("h", 1<<20)},
			[]string{"TTL", "DriftBound", "Margin", "Prefix", "Holder"},
		},
	}
	for _, tt := range tests {
		_, newErr := leasehold.New(cl.Client, tt.cfg)
		_, sessionErr := leasehold.NewSession(within(t), cl.Client, tt.cfg)
		for call, err := range map[string]error{"New": newErr, "NewSession": sessionErr} {
			wantErr(t, call+" with "+tt.what, err, leasehold.ErrInvalidConfig)
			if err == nil {
				continue
			}
			for _, want := range tt.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s with %s: %q does not name %s", call, tt.what, err, want)
				}
			}
			if len(err.Error()) > 2000 {
				t.Errorf("%s with %s: an error of %d bytes", call, tt.what, len(err.Error()))
			}
		}
	}
}

func TestConfig_AtItsBoundsIsAccepted(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	for _, cfg := range []leasehold.Config{
		{},
		{TTL: time.Second},
		{TTL: 5 * time.Minute},
		{DriftBound: 1e-6},
		{DriftBound: 0.1},
		{Margin: 1},
		{TTL: 2 * time.Second, Margin: time.Second},
		{Holder: strings.Repeat("h", 4096)},
	} {
		cfg.Prefix = sc.prefix
		s, err := leasehold.NewSession(within(t), sc.Client(t).Client, cfg)
		if err != nil {
			t.Errorf("%+v: %v", cfg, err)
			continue
		}
		closeAtEnd(t, s)
	}
	// A fraction of a second is rounded up.
	s := sc.newSession(1001 * time.Millisecond)
	if s.TTL() != 2*time.Second {
		t.Errorf("a TTL of 1.001s became %v", s.TTL())
	}
}

func TestClients_ThatCannotCarryASessionAreRefused(t *testing.T) {
	t.Parallel()
	closed := func() *clientv3.Client {
		cl, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
		if err != nil {
			t.Fatal(err)
		}
		_ = cl.Close()
		return cl
	}
	for what, tt := range map[string]struct {
		cl   *clientv3.Client
		want error
	}{
		"nil":                  {nil, leasehold.ErrInvalidConfig},
		"without a connection": {clientv3.NewCtxClient(t.Context()), leasehold.ErrInvalidConfig},
		"closed":               {closed(), leasehold.ErrClosed},
	} {
		_, err := leasehold.NewSession(within(t), tt.cl, leasehold.Config{})
		wantErr(t, "NewSession, "+what, err, tt.want)
		_, err = leasehold.New(tt.cl, leasehold.Config{})
		wantErr(t, "New, "+what, err, tt.want)
	}
}

// Nobody listens at the endpoints. Calls end with their context, and say so.
func TestClients_WithWrongEndpointsEndWithTheContext(t *testing.T) {
	t.Parallel()
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1", "localhost:2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	var ctx context.Context
	for patience := 500 * time.Millisecond; ; patience *= 2 { // until a first refusal has been told: that takes its time, too
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err = leasehold.NewSession(ctx, cl, leasehold.Config{})
		wantErr(t, "NewSession", err, context.DeadlineExceeded)
		if err == nil || strings.Contains(err.Error(), "refused") {
			break
		}
		if patience > step {
			t.Fatalf("%q does not tell why", err)
		}
	}
	c, err := leasehold.New(cl, leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Lock(ctx, "name")
	wantErr(t, "Lock", err, context.DeadlineExceeded)
	if err := c.Close(within(t)); err != nil {
		t.Errorf("close of a Client that never had a session: %v", err)
	}
}

func TestSession_RefusesEverythingAfterClose(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s, pool := sc.newSession(time.Minute), sc.pool(sc.Client(t), time.Minute)
	g, pooled := mustLock(t, s, "name"), mustLock(t, pool, "pooled")
	closeAtEnd(t, s)
	closeAtEnd(t, pool)
	for call, err := range map[string]error{
		"Session.Lock":    second(s.Lock(within(t), "name")),
		"Session.TryLock": second(s.TryLock(within(t), "name")),
		"Session.Do":      s.Do(within(t), "name", nothing),
		"Client.Lock":     second(pool.Lock(within(t), "name")),
		"Client.TryLock":  second(pool.TryLock(within(t), "name")),
		"Client.Do":       pool.Do(within(t), "name", nothing),
		"Client.Session":  second(pool.Session(within(t))),
		"Session.Err":     s.Err(),
		"Grant.Err":       g.Err(),
		"Grant.Release":   pooled.Release(within(t)),
	} {
		wantErr(t, call, err, leasehold.ErrClosed)
	}
	s.Abandon()
	wantErr(t, "release again", pooled.Release(within(t)), leasehold.ErrReleased)
	if err := errors.Join(s.Close(within(t)), pool.Close(within(t))); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestCalls_WithNothingToCallAreRefused(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	if err := s.Do(within(t), "name", nil); err == nil {
		t.Error("Do without a function succeeded")
	}
	if _, err := s.Lock(within(t), "name", leasehold.WithHolder(strings.Repeat("h", 2<<20))); !errors.Is(err, leasehold.ErrInvalidConfig) {
		t.Errorf("a holder of 2 MiB: %v", err)
	}
	g, err := s.Lock(within(t), "name", nil, leasehold.WithHolder("me"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.TryLock(within(t), "name")
	var locked *leasehold.LockedError
	if !errors.As(err, &locked) || locked.Holder != "me" {
		t.Errorf("TryLock: %v, want it locked by me", err)
	}
	mustRelease(t, g)
}
