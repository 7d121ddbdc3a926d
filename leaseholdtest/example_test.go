// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

// background is what t.Context() is in a test, with a bound.
func background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Minute)
}

// check ends an example on an error.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// asTest runs f as a test would be run. In your own code, f is the body of func TestX(t *testing.T).
func asTest(f func(t testing.TB)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &exampleT{ctx: ctx}
	defer func() {
		cancel()
		for i := len(t.cleanups) - 1; i >= 0; i-- {
			t.cleanups[i]()
		}
	}()
	f(t)
}

type exampleT struct {
	testing.TB

	ctx      context.Context
	cleanups []func()
}

func (t *exampleT) Helper()                        {}
func (t *exampleT) Context() context.Context       { return t.ctx }
func (t *exampleT) Cleanup(f func())               { t.cleanups = append(t.cleanups, f) }
func (t *exampleT) Failed() bool                   { return false }
func (t *exampleT) Errorf(format string, a ...any) { fmt.Printf(format+"\n", a...) }
func (t *exampleT) Fatalf(format string, a ...any) { log.Fatalf(format, a...) }
func (t *exampleT) Fatal(a ...any)                 { log.Fatal(a...) }

func ExampleStart() {
	asTest(func(t testing.TB) {
		leaseholdtest.NoGoroutines(t)
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)

		lease, err := cl.Grant(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("granted", lease.TTL, "s")
	})
	// Output: granted 1 s
}

func ExampleStartCluster() {
	ctx, cancel := background()
	defer cancel()
	c, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: 3})
	check(err)
	defer func() { check(c.Close()) }()

	cl, err := c.NewClient(leaseholdtest.ClientOptions{})
	check(err)
	_, err = cl.Put(ctx, "key", "value")
	check(err)
	fmt.Println(len(c.Members()), "members, one leads:", c.Leader() != nil)
	// Output: 3 members, one leads: true
}

func ExampleCluster_Play() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
		cl := c.Client(t)
		s := leaseholdtest.RandomSchedule(t, leaseholdtest.ScheduleOptions{
			Members: 3, Clients: 1, Length: 2 * time.Second, Every: 200 * time.Millisecond, KeepQuorum: true,
		})
		// In the meantime, a test would use cl from other goroutines and check what it promises.
		check(c.Play(t.Context(), s, cl))
		fmt.Println("everything is healed:", c.Settle(t.Context()))
	})
	// Output: everything is healed: <nil>
}

func ExampleParseSchedule() {
	s, err := leaseholdtest.ParseSchedule("500ms kill m0; 2s restart m0; 2500ms delay c0 m1 both 100ms 20ms")
	check(err)
	fmt.Println(s)
	// Output:
	// 500ms kill m0
	// 2s restart m0
	// 2.5s delay c0 m1 both 100ms 20ms
}

func ExampleNewSchedule() {
	o := leaseholdtest.ScheduleOptions{Members: 3, Clients: 2}
	a, b := leaseholdtest.NewSchedule(42, o), leaseholdtest.NewSchedule(42, o)
	fmt.Println("one seed, one schedule:", a.String() == b.String())
	// Output: one seed, one schedule: true
}

func ExampleCluster_NoKeysWithin() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		lease, err := cl.Grant(t.Context(), 1)
		check(err)
		_, err = cl.Put(t.Context(), "jobs/nightly", "me", clientv3.WithLease(lease.ID))
		check(err)
		c.NoKeysWithin(t, time.Minute, "jobs/") // nobody renews the lease
		fmt.Println("it ran out")
	})
	// Output: it ran out
}
