// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

func TestLink(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	link := cl.Link(c.Member(0))
	put := func(d time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		_, err := cl.Put(ctx, "k", "v")
		return err
	}
	if err := put(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	link.Hold(leaseholdtest.Down)
	if err := put(200 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	t.Logf("%+v", link.Stats())
	link.Release(leaseholdtest.Down)
	if err := put(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", link.Stats())
	link.Blackhole(leaseholdtest.Both)
	if err := put(200 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	t.Logf("%+v", link.Stats())
	link.Heal()
	if err := put(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", link.Stats())
	link.Delay(leaseholdtest.Up, 300*time.Millisecond, 0)
	start := time.Now()
	if err := put(10 * time.Second); err != nil || time.Since(start) < 300*time.Millisecond {
		t.Fatal(err, time.Since(start))
	}
	link.Heal()
	link.Reset()
	if err := put(10 * time.Second); err != nil {
		t.Log(err)
	}
	if err := put(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", link.Stats())
}
