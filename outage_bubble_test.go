// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"example.com/leasehold/internal/etcdfake"
)

// A meter counts what a client sends: calls that it begins, and connections that it dials.
type meter struct{ calls, streams, dials atomic.Int64 }

// metered is a machine whose client is counted.
func (r *rig) metered() (*rig, *meter) {
	m := &meter{}
	host := r.cluster.NewHost()
	client := host.Client(r.T, func(cfg *clientv3.Config) {
		cfg.DialOptions = append(cfg.DialOptions,
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				m.dials.Add(1)
				return host.DialContext(ctx, addr)
			}),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				m.calls.Add(1)
				return invoke(ctx, method, req, reply, cc, opts...)
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				m.streams.Add(1)
				return open(ctx, desc, cc, method, opts...)
			}))
	})
	return &rig{T: r.T, cluster: r.cluster, client: client}, m
}

// Scenario 24: the cluster is down for 30 s under a hundred waiters and twenty holders. Nobody spins; afterwards everything
// goes on.
func TestOutage_OfThirtySecondsIsWaitedOutWithoutABusyLoop(t *testing.T) {
	for name, down := range map[string]func(r *rig, on bool){
		"stopped": func(r *rig, on bool) {
			for i := range 3 {
				if on {
					r.cluster.Member(i).Stop()
				} else {
					r.cluster.Member(i).Start()
				}
			}
		},
		"silent": func(r *rig, on bool) {
			for i := range 3 {
				if on {
					r.cluster.Member(i).Blackhole()
				} else {
					r.cluster.Member(i).Unblackhole()
				}
			}
		},
		"no quorum": func(r *rig, on bool) {
			for i := range 2 {
				if on {
					r.cluster.Member(i).Isolate()
				} else {
					r.cluster.Member(i).Rejoin()
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				r, m := r.metered()
				s := r.open(Config{TTL: time.Minute})
				const names, waiters = 20, 100
				var held []*Grant
				for i := range names {
					held = append(held, r.lock(s, fmt.Sprint("n", i)))
				}
				got := make(chan error, waiters)
				for i := range waiters {
					go func() {
						g, err := s.Lock(r.Context(), fmt.Sprint("n", i%names))
						if err == nil {
							err = g.Release(r.Context())
						}
						got <- err
					}()
				}
				time.Sleep(5 * time.Second)
				r.quiet()
				down(r, true)
				calls, streams, dials := m.calls.Load(), m.streams.Load(), m.dials.Load()
				time.Sleep(30 * time.Second)
				calls, streams, dials = m.calls.Load()-calls, m.streams.Load()-streams, m.dials.Load()-dials
				r.Logf("in 30s: %d calls, %d streams, %d dials", calls, streams, dials)
				if calls > 150 || streams > 150 || dials > 300 {
					r.Errorf("in 30s: %d calls, %d streams, %d dials: a busy loop", calls, streams, dials)
				}
				down(r, false)
				back := time.Now()
				time.Sleep(5 * time.Second)
				for _, g := range held {
					r.must(g.Release(r.Context()))
				}
				for range waiters {
					if err := r.result("a waiter", got); err != nil {
						r.Errorf("a waiter: %v", err)
					}
				}
				if d := time.Since(back); d > 10*time.Second {
					r.Errorf("everybody had the lock only %v after the cluster was back", d)
				}
				if !s.Valid() {
					r.Errorf("lost: %v", s.Err())
				}
			})
		})
	}
}

// The same for longer than the term: everybody is told, nobody hangs, and nothing is sent for what is lost.
func TestOutage_LongerThanTheTermTellsEverybody(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r, m := r.metered()
		s := r.open(Config{TTL: 6 * time.Second})
		g := r.lock(s, "a")
		got := make(chan error, 10)
		for range 10 {
			go func() { got <- second(s.Lock(r.Context(), "a")) }()
		}
		time.Sleep(3 * time.Second)
		r.quiet()
		for i := range 3 {
			r.cluster.Member(i).Stop()
		}
		expiry := r.expiryOf(s)
		for range 10 {
			if err := r.result("a waiter", got); !errors.Is(err, ErrExpired) {
				r.Errorf("a waiter: %v, want ErrExpired", err)
			}
		}
		if d := time.Since(expiry); d != 0 || g.Valid() {
			r.Errorf("told %v after the expiry; valid %v", d, g.Valid())
		}
		time.Sleep(10 * time.Second) // the clean-up gives up when the lease has run out anyway
		calls, streams := m.calls.Load(), m.streams.Load()
		time.Sleep(time.Minute)
		if calls, streams := m.calls.Load()-calls, m.streams.Load()-streams; calls+streams > 0 {
			r.Errorf("%d calls and %d streams for nobody", calls, streams)
		}
	})
}

// A pool replaces a lost session for new calls, with backoff, and goes on when the cluster is back.
func TestOutage_APoolGoesOnAfterIt(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		c := r.pool(Config{TTL: 6 * time.Second})
		g, err := c.Lock(r.Context(), "a")
		r.must(err)
		for i := range 3 {
			r.cluster.Member(i).Stop()
		}
		r.ended("the grant", g.Done(), time.Minute)
		got := make(chan error, 5)
		for i := range 5 {
			go func() { got <- second(c.Lock(r.Context(), fmt.Sprint("b", i))) }()
		}
		time.Sleep(2 * time.Minute)
		for i := range 3 {
			r.cluster.Member(i).Start()
		}
		back := time.Now()
		for range 5 {
			r.must(r.result("a waiter", got))
		}
		if d := time.Since(back); d > 10*time.Second {
			r.Errorf("went on %v after the cluster was back", d)
		}
		if g.Valid() || !errors.Is(g.Err(), ErrExpired) {
			r.Errorf("the old grant: valid %v, %v", g.Valid(), g.Err())
		}
	})
}

// A member that has died without a word is connected still, for all that grpc knows. When the others come back after a while, they are
// not left waiting for the end of grpc's backoff, up to two minutes.
func TestOutage_ADeadMemberDoesNotHideThatOthersAreBack(t *testing.T) {
	for _, down := range []time.Duration{time.Minute, 90 * time.Second, 2 * time.Minute} { // the backoff is jittered
		t.Run(down.String(), func(t *testing.T) { deadMember(t, down) })
	}
}

func deadMember(t *testing.T, down time.Duration) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s, closing := r.open(Config{TTL: 5 * time.Minute}), r.open(Config{TTL: 5 * time.Minute})
		held := r.lock(s, "held")
		time.Sleep(10 * time.Second)
		r.quiet()
		r.cluster.Member(0).Blackhole()
		r.cluster.Member(1).Stop()
		r.cluster.Member(2).Stop()
		time.Sleep(time.Second)
		type result struct {
			what string
			err  error
			at   time.Time
		}
		got := make(chan result)
		for what, f := range map[string]func() error{
			"lock":    func() error { return second(s.Lock(r.Context(), "free")) },
			"release": func() error { return held.Release(r.Context()) },
			"close":   func() error { return closing.Close(r.Context()) },
			"open":    func() error { return second(NewSession(r.Context(), r.client, Config{})) },
		} {
			go func() {
				err := f()
				got <- result{what, err, time.Now()}
			}()
		}
		time.Sleep(down)
		r.cluster.Member(1).Start()
		r.cluster.Member(2).Start()
		back := time.Now()
		for range 4 {
			res := <-got
			if d := res.at.Sub(back); res.err != nil || d > 15*time.Second {
				r.Errorf("%s: %v, %v after two members were back", res.what, res.err, d)
			}
		}
	})
}
