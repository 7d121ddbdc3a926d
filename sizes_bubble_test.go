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

	clientv3 "go.etcd.io/etcd/client/v3"

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

// What is too large for the etcd client fails for as long as it is wanted, and holds nobody up.
func TestCommitter_WhatCannotBeSentHoldsNobodyUp(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		r.client = r.cluster.Client(r.T, func(c *clientv3.Config) { c.MaxCallSendMsgSize = 16 << 10 })
		s := r.open(Config{})
		got := make(chan error, 1)
		go func() {
			_, err := s.Lock(r.within(20*time.Second), "large", WithHolder(strings.Repeat("x", 20<<10)))
			got <- err
		}()
		r.quiet()
		for i := range 10 {
			g, err := s.Lock(r.within(5*time.Second), fmt.Sprint(i))
			if err != nil {
				r.Errorf("lock %d beside it: %v", i, err)
				continue
			}
			r.must(g.Release(r.within(5 * time.Second)))
		}
		if err := r.result("the large one", got); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("got %v, want the end of its context", err)
		}
	})
}
