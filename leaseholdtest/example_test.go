// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
		leaseholdtest.Eventually(t, time.Minute, "a second connection", func() bool { return link.Stats().Accepted == 2 })
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
		check(c.MoveLeader(t.Context(), c.Member(2)))
		fmt.Println(c.Leader(), "leads")
	})
	// Output: m2 leads
}

func ExampleCluster_RevokeLease() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		lease, err := cl.Grant(t.Context(), 60)
		check(err)
		_, err = cl.Put(t.Context(), "jobs/nightly", "me", clientv3.WithLease(lease.ID))
		check(err)

		check(c.RevokeLease(t.Context(), lease.ID))
		c.NoKeys(t, "jobs/")
		_, err = cl.KeepAliveOnce(t.Context(), lease.ID)
		fmt.Println("the holder hears:", errors.Is(err, rpctypes.ErrLeaseNotFound))
	})
	// Output: the holder hears: true
}

func ExampleCluster_Overwrite() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		lease, err := cl.Grant(t.Context(), 60)
		check(err)
		_, err = cl.Put(t.Context(), "jobs/nightly", "me", clientv3.WithLease(lease.ID))
		check(err)

		check(c.Overwrite(t.Context(), "jobs/nightly", "somebody else"))
		r, err := cl.Get(t.Context(), "jobs/nightly")
		check(err)
		fmt.Printf("%s, lease %d\n", r.Kvs[0].Value, r.Kvs[0].Lease)
		check(c.Delete(t.Context(), "jobs/nightly"))
		c.NoKeys(t, "jobs/")
	})
	// Output: somebody else, lease 0
}

func ExampleCluster_Compact() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		check(c.Overwrite(t.Context(), "key", "old"))
		check(c.Overwrite(t.Context(), "key", "new"))
		rev, err := c.Compact(t.Context())
		check(err)
		_, err = c.Client(t).Get(t.Context(), "key", clientv3.WithRev(rev-1))
		fmt.Println("the old value is gone:", errors.Is(err, rpctypes.ErrCompacted))
	})
	// Output: the old value is gone: true
}

func ExampleCluster_EnableAuth() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{AuthTokenTTL: 2 * time.Second})
		check(c.EnableAuth(t.Context(), leaseholdtest.User{Name: "worker", Password: "secret", Prefixes: []string{"jobs/"}}))

		cl := c.ClientWith(t, leaseholdtest.ClientOptions{User: "worker", Password: "secret"})
		_, err := cl.Put(t.Context(), "jobs/nightly", "me")
		fmt.Println("its own:", err)
		_, err = cl.Put(t.Context(), "billing/nightly", "me")
		fmt.Println("another's:", errors.Is(err, rpctypes.ErrPermissionDenied))
	})
	// Output:
	// its own: <nil>
	// another's: true
}

func ExampleCluster_RaiseNoSpace() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		check(c.RaiseNoSpace(t.Context()))
		_, err := cl.Put(t.Context(), "key", "value")
		fmt.Println("no space:", errors.Is(err, rpctypes.ErrNoSpace))
		check(c.ClearAlarms(t.Context()))
		_, err = cl.Put(t.Context(), "key", "value")
		fmt.Println("again:", err)
	})
	// Output:
	// no space: true
	// again: <nil>
}

func ExampleCluster_Rollback() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		check(c.Overwrite(t.Context(), "key", "old"))
		saved, err := c.Save(t.Context())
		check(err)
		check(c.Overwrite(t.Context(), "key", "new"))

		cl := c.Client(t) // lives on
		check(c.Rollback(t.Context(), saved))
		r, err := cl.Get(t.Context(), "key")
		check(err)
		fmt.Printf("%s again\n", r.Kvs[0].Value)
	})
	// Output: old again
}

func ExampleCluster_Replace() {
	asTest(func(t testing.TB) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{})
		cl := c.Client(t)
		before, err := cl.Get(t.Context(), "key")
		check(err)
		check(c.Replace(t.Context()))
		after, err := cl.Get(t.Context(), "key")
		check(err)
		fmt.Println("another cluster:", before.Header.ClusterId != after.Header.ClusterId)
	})
	// Output: another cluster: true
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
