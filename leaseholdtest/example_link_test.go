// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func ExampleLink_Hold() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		link := cl.Link(c.Member(0))

		// The client connects when it is used first. A link that holds would let no new connection through.
		_, err := cl.Get(t.Context(), "key")
		check(err)

		// The write is made, but its answer is on its way for long.
		link.Hold(leaseholdtest.Down)
		done := make(chan error, 1)
		go func() {
			_, err := cl.Put(t.Context(), "key", "value")
			done <- err
		}()
		leaseholdtest.Eventually(t, time.Minute, "the write is made", func() bool {
			keys, err := c.Keys(t.Context(), "key")
			return err == nil && len(keys) == 1
		})
		select {
		case <-done:
			fmt.Println("answered?")
		default:
			fmt.Println("written, not answered")
		}
		link.Release(leaseholdtest.Down)
		fmt.Println("answered:", <-done)
	})
	// Output:
	// written, not answered
	// answered: <nil>
}

func ExampleLink_Blackhole() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl, other := c.Client(t), c.Client(t)

		cl.Link(c.Member(0)).Blackhole(leaseholdtest.Both)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := cl.Get(ctx, "key")
		fmt.Println("silence:", errors.Is(err, context.DeadlineExceeded))
		_, err = other.Get(t.Context(), "key")
		fmt.Println("for another client:", err)

		cl.Heal()
		_, err = cl.Get(t.Context(), "key")
		fmt.Println("healed:", err)
	})
	// Output:
	// silence: true
	// for another client: <nil>
	// healed: <nil>
}

func ExampleLink_Delay() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)

		cl.Link(c.Member(0)).Delay(leaseholdtest.Both, 50*time.Millisecond, 10*time.Millisecond)
		begin := time.Now()
		_, err := cl.Get(t.Context(), "key")
		fmt.Println("a round trip of 100 ms at least:", time.Since(begin) >= 100*time.Millisecond, err)
	})
	// Output: a round trip of 100 ms at least: true <nil>
}

func ExampleLink_Reset() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		link := cl.Link(c.Member(0))

		events := cl.Watch(t.Context(), "key", clientv3.WithCreatedNotify())
		<-events
		link.Reset() // the client connects again and resumes the watch
		leaseholdtest.Eventually(t, time.Minute, "a second connection", func() bool { return link.Stats().Accepted >= 2 })
		check(c.Overwrite(t.Context(), "key", "value"))
		for w := range events {
			if len(w.Events) > 0 {
				fmt.Printf("%s %s\n", w.Events[0].Type, w.Events[0].Kv.Key)
				return
			}
		}
	})
	// Output: PUT key
}
