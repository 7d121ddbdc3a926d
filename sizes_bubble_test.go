// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// An etcd client can be set to send less than a shared transaction may hold. Then fewer share one.
func TestCommitter_SharesNoMoreThanTheEtcdClientSends(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		r.client = r.cluster.Client(r.T, func(c *clientv3.Config) { c.MaxCallSendMsgSize = 16 << 10 })
		r.delay(5*time.Millisecond, 5*time.Millisecond)
		s := r.open(Config{})
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() {
				g, err := s.Lock(r.within(10*time.Second), fmt.Sprint(i), WithHolder(strings.Repeat("x", 1000)))
				if err != nil {
					r.Errorf("lock %d: %v", i, err)
					return
				}
				if err := g.Release(r.Context()); err != nil {
					r.Errorf("release %d: %v", i, err)
				}
			})
		}
		wg.Wait()
	})
}

// What is too large for the etcd client, or refused by an interceptor of it, fails for as long as it is wanted, and holds nobody up.
func TestCommitter_WhatCannotBeSentHoldsNobodyUp(t *testing.T) {
	for name, spoil := range map[string]func(*clientv3.Config){
		"too large": func(c *clientv3.Config) { c.MaxCallSendMsgSize = 16 << 10 },
		"an interceptor": func(c *clientv3.Config) {
			c.DialOptions = append(c.DialOptions, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				if txn, ok := req.(*pb.TxnRequest); ok && proto.Size(txn) > 16<<10 {
					return errors.New("refused by the interceptor")
				}
				return invoke(ctx, method, req, reply, cc, opts...)
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				r.client = r.cluster.Client(r.T, spoil)
				s := r.open(Config{TTL: time.Minute})
				got := make(chan error, 3)
				for i := range cap(got) {
					go func() {
						got <- second(s.Lock(r.within(50*time.Second), fmt.Sprint("large ", i), WithHolder(strings.Repeat("x", 20<<10))))
					}()
				}
				time.Sleep(5 * time.Second)
				for i := range 10 {
					start := time.Now()
					g, err := s.Lock(r.within(5*time.Second), fmt.Sprint(i))
					if err != nil {
						r.Errorf("lock %d beside it: %v", i, err)
						continue
					}
					if d := time.Since(start); d != 0 {
						r.Errorf("lock %d beside it took %v", i, d)
					}
					r.must(g.Release(r.within(5 * time.Second)))
					time.Sleep(2 * time.Second) // so that it fails a few times before the next
				}
				for range cap(got) {
					if err := r.result("a large one", got); !errors.Is(err, context.DeadlineExceeded) {
						r.Errorf("got %v, want the end of its context", err)
					}
				}
				time.Sleep(5 * time.Second)
				c := s.engine.writes
				c.mu.Lock()
				defer c.mu.Unlock()
				if c.sick.open || len(c.sick.writes)+len(c.queue) > 0 {
					r.Errorf("%d writes are still sick, %d in the queue", len(c.sick.writes), len(c.queue))
				}
			})
		})
	}
}

// A trouble that looks like each write's own is everybody's when all have it: it is not made worse, and ends for all at once.
func TestCommitter_WhenAllAreSickEtcdIsAskedNowAndThen(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{TTL: time.Minute})
		txns := r.calls("KV/Txn")
		well := r.cluster.Hook(etcdfake.On("KV/Txn", etcdfake.Fail(rpctypes.ErrGRPCRequestTooManyRequests)))
		got := make(chan error, 100)
		for i := range cap(got) {
			go func() { got <- second(s.Lock(r.Context(), fmt.Sprint(i))) }()
		}
		time.Sleep(10 * time.Second)
		before := txns()
		time.Sleep(20 * time.Second)
		if n := txns() - before; n > 60 {
			r.Errorf("%d transactions in 20s", n)
		}
		well()
		start := time.Now()
		for range cap(got) {
			r.must(r.result("a lock", got))
		}
		if d := time.Since(start); d > 2*time.Second {
			r.Errorf("the last one had its lock %v after the trouble", d)
		}
	})
}
