// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestSmoke(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	s, err := leasehold.NewSession(t.Context(), cl.Client, leasehold.Config{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t0 := time.Now()
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("lock", time.Since(t0), g.Token(), g.Key(), g.Remaining())
	_, err = s.TryLock(t.Context(), "a")
	fmt.Println(err, errors.Is(err, leasehold.ErrLocked))
	got := make(chan *leasehold.Grant)
	go func() {
		g2, err := s.Lock(t.Context(), "a")
		if err != nil {
			t.Error(err)
		}
		got <- g2
	}()
	time.Sleep(300 * time.Millisecond)
	t0 = time.Now()
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("release", time.Since(t0))
	g2 := <-got
	fmt.Println("handover", time.Since(t0), g2.Token())
	time.Sleep(5 * time.Second)
	fmt.Println(g2.Valid(), g2.Remaining(), g2.Err())
	cl.Client.Delete(context.Background(), g2.Key())
	t0 = time.Now()
	<-g2.Done()
	fmt.Println("told", time.Since(t0), context.Cause(g2.Context()))
	fmt.Println(g2.Release(t.Context()), g2.Release(t.Context()))
	t0 = time.Now()
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			g, err := s.Lock(t.Context(), fmt.Sprint("n", i%5))
			if err != nil {
				t.Error(err)
				return
			}
			if err := g.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fmt.Println("200", time.Since(t0))
	t0 = time.Now()
	fmt.Println(s.Close(t.Context()), time.Since(t0))
	r, _ := c.DirectClient(t).Get(context.Background(), "", clientv3.WithPrefix())
	fmt.Println(len(r.Kvs))
}
