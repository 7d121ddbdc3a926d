// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

func ExampleMember_Kill() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		cl := c.Client(t)
		_, err := cl.Put(t.Context(), "key", "value")
		check(err)

		old, err := c.WaitLeader(t.Context())
		check(err)
		check(old.Kill(t.Context()))
		next, err := c.WaitLeader(t.Context())
		check(err)
		fmt.Println("another one leads:", next != old)
		check(old.Restart(t.Context()))
		r, err := cl.Get(t.Context(), "key")
		check(err)
		fmt.Printf("%s is still there\n", r.Kvs[0].Key)
	})
	// Output:
	// another one leads: true
	// key is still there
}

func ExampleMember_Pause() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)

		m := c.Member(0)
		m.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := cl.Get(ctx, "key")
		fmt.Println("silence:", errors.Is(err, context.DeadlineExceeded))
		m.Resume()
		_, err = cl.Get(t.Context(), "key")
		fmt.Println("resumed:", err)
	})
	// Output:
	// silence: true
	// resumed: <nil>
}

func ExampleCluster_IsolateLeader() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		old, err := c.IsolateLeader(t.Context())
		check(err)
		fmt.Println("replaced:", c.Leader() != old)
		c.Rejoin(old)
		fmt.Println("all follow one leader:", c.Settle(t.Context()))
	})
	// Output:
	// replaced: true
	// all follow one leader: <nil>
}

func ExampleCluster_Cut() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		cl := c.Client(t)

		// Each still reaches the third, so the cluster goes on.
		a, b := c.Member(0), c.Member(1)
		c.Cut(a, b)
		leaseholdtest.Eventually(t, time.Minute, "a write is made", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := cl.Put(ctx, "key", "value")
			return err == nil
		})
		c.Mend(a, b)
		fmt.Println("mended:", c.Settle(t.Context()))
	})
	// Output: mended: <nil>
}

func ExampleCluster_LoseQuorum() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		check(c.LoseQuorum(t.Context()))
		fmt.Println("nobody leads:", c.Leader() == nil)
		leader, err := c.RegainQuorum(t.Context())
		check(err)
		fmt.Println("somebody leads:", leader != nil)
	})
	// Output:
	// nobody leads: true
	// somebody leads: true
}

func ExampleCluster_MoveLeader() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		fmt.Println("moved:", c.MoveLeader(t.Context(), c.Member(2)))
	})
	// Output: moved: <nil>
}
