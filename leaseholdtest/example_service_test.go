// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// The leader of a service, not of etcd, is cut off. Each replica has a client of its own. The whole service with its tests is
// examples/scheduler, which docs/testing-your-service.md explains.
func ExampleClient_Blackhole() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		campaign := func(cl *leaseholdtest.Client, replica string) *leasehold.Leadership {
			s, err := leasehold.NewSession(t.Context(), cl.Client, leasehold.Config{TTL: 2 * time.Second})
			check(err)
			t.Cleanup(func() { check(s.Close(context.WithoutCancel(t.Context()))) })
			l, err := s.Election("scheduler").Campaign(t.Context(), replica)
			check(err)
			return l
		}

		a, b := c.Client(t), c.Client(t)
		first := campaign(a, "a")
		a.Blackhole(leaseholdtest.Both)
		second := campaign(b, "b") // returns when the lease of a has run out

		fmt.Println("a knows that it leads no more:", errors.Is(first.Err(), leasehold.ErrExpired))
		var resource leasehold.Fence
		fmt.Println("b writes:", resource.Check("journal", second.Token()))
		late := resource.Check("journal", first.Token())
		fmt.Println("a writes too late:", errors.Is(late, leasehold.ErrStaleToken))
		a.Heal()
	})
	// Output:
	// a knows that it leads no more: true
	// b writes: <nil>
	// a writes too late: true
}
