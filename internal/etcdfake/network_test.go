// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLink_DelaysCountOnceForEachDirection(t *testing.T) {
	inBubble(t, Options{CommitLatency: 3 * ms}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		mustPut(t, cli, "warm", "up")
		c.Link(cli, 0).SetDelay(10*ms, 20*ms)
		check(t, "put", took(func() { mustPut(t, cli, "a", "") }), 33*ms)
		check(t, "get", took(func() { _, _ = cli.Get(t.Context(), "a") }), 30*ms)
		c.SetLatency(5*ms, 7*ms)
		check(t, "put", took(func() { mustPut(t, cli, "a", "") }), 42*ms)
	})
}

func TestLink_JitterRepeatsWithTheSeed(t *testing.T) {
	run := func(seed uint64) (times string) {
		inBubble(t, Options{Seed: seed}, func(t *testing.T, c *Cluster) {
			cli := c.Client(t)
			c.Link(cli, 0).SetJitter(10*ms, 10*ms)
			for i := range 20 {
				times += fmt.Sprint(took(func() { mustPut(t, cli, "a", fmt.Sprint(i)) }), " ")
			}
		})
		return times
	}
	first := run(1)
	check(t, "the same seed", run(1), first)
	if run(2) == first {
		t.Error("another seed gave the same times")
	}
}

func TestLink_HeldBytesArriveLater(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		check(t, "TTL", r.renew(id), 60)
		c.Link(cli, 0).Hold(false, true)
		r.send(id)
		synctest.Wait()
		check(t, "renewals that arrived", len(c.Renewals(id)), 2)
		go func() {
			time.Sleep(8 * time.Second)
			c.Link(cli, 0).Release(false, true)
		}()
		check(t, "answer after", took(func() { check(t, "TTL", r.next().TTL, 60) }), 8*time.Second)
	})
}

func TestLink_ResetEndsStreams(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		check(t, "connections", c.Link(cli, 0).Connections(), 1)
		c.Link(cli, 0).Reset()
		if _, err := r.stream.Recv(); err == nil {
			t.Error("the stream outlived its connection")
		}
		mustPut(t, cli, "a", "") // over a new one
	})
}

func TestLink_RefusedHostsGetNoConnection(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		here, there := c.Client(t), c.Client(t)
		for i := range 2 {
			c.Link(here, i).Refuse()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := here.Get(ctx, "a")
		expects(t, "get", err, context.DeadlineExceeded)
		mustPut(t, there, "a", "")
		for i := range 2 {
			c.Link(here, i).Accept()
		}
		mustPut(t, here, "a", "")
	})
}

func TestLink_LossResetsSooner(t *testing.T) {
	inBubble(t, Options{Seed: 3}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		mustPut(t, cli, "a", "")
		c.Link(cli, 0).SetDelay(ms, ms) // what is sent at one instant is lost together
		c.Link(cli, 0).SetLoss(0.2, 0.2)
		failed := 0
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := cli.Put(ctx, "a", ""); err != nil {
				failed++
			}
			cancel()
		}
		if failed == 0 || failed == 50 {
			t.Errorf("%d of 50 puts failed", failed)
		}
	})
}

func TestMember_ABlackholeAnswersNobodyAndForgetsNothing(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 1)
		mustPut(t, cli, "warm", "up")
		c.Member(1).Blackhole()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var err error
		check(t, "put", took(func() { _, err = cli.Put(ctx, "a", "") }), time.Minute)
		expects(t, "put", err, context.DeadlineExceeded)
		check(t, "keys while held", len(c.Keys("a")), 0)
		check(t, "leader", c.Leader(), 0)
		late := only(t, c, 1)
		dial, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = late.Get(dial, "a")
		expects(t, "get over a new connection", err, context.DeadlineExceeded)
		c.Member(1).Unblackhole()
		mustPut(t, cli, "b", "")
		if _, err := late.Get(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}

func TestMember_AStoppedOneResetsItsConnections(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 1}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 1)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.Member(1).Stop()
		if _, err := r.stream.Recv(); err == nil {
			t.Error("the stream outlived its member")
		}
		other := c.Client(t) // knows the others
		mustPut(t, other, "a", "")
		c.Member(1).Start()
		resp, err := cli.Get(t.Context(), "a", clientv3.WithSerializable())
		if err != nil || len(resp.Kvs) != 1 {
			t.Errorf("the restarted member answered %v, %v", resp, err)
		}
	})
}

func TestMember_ASilentDeathIsNotTold(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 1)
		id := mustGrant(t, cli, 60)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := renewing(ctx, t, cli)
		r.renew(id)
		c.Member(1).Blackhole()
		c.Member(1).Stop()
		r.send(id)
		time.Sleep(10 * time.Second)
		r.send(id)
		var err error
		check(t, "the stream's end", took(func() { _, err = r.stream.Recv() }), 50*time.Second)
		if err == nil || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("the stream ended with %v before its context", err)
		}
	})
}

func TestMember_APausedOneGoesOnWhereItStopped(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 5)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		c.Member(0).Pause()
		go func() {
			time.Sleep(20 * time.Second)
			c.Member(0).Resume()
		}()
		check(t, "put", took(func() { mustPut(t, cli, "b", "") }), 20*time.Second)
		time.Sleep(time.Second)
		check(t, "keys of the lease that expired meanwhile", len(c.Keys("a")), 0)
	})
}

// Whatever had reached the member before it was paused is handled when it goes on, and not before.
func TestMember_APausedOneHandlesNothing(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.Hook(Delay(time.Second))
		r.send(id)
		read := make(chan time.Time, 1)
		go func() {
			_, _ = cli.Get(t.Context(), "a", clientv3.WithSerializable())
			read <- time.Now()
		}()
		synctest.Wait()
		c.Member(0).Pause()
		time.Sleep(10 * time.Second)
		c.Member(0).Resume()
		resumed := time.Now()
		check(t, "TTL", r.next().TTL, 60)
		at, ok := c.LeaseExpiry(id)
		check(t, "expiry", at, resumed.Add(60*time.Second))
		check(t, "known", ok, true)
		check(t, "read", <-read, resumed)
	})
}

func TestMember_PingsNoticeASilentDeath(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t, func(cfg *clientv3.Config) {
			cfg.Endpoints = []string{c.Member(1).Endpoint()}
			cfg.DialKeepAliveTime, cfg.DialKeepAliveTimeout = 10*time.Second, 3*time.Second
		})
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.Member(1).Blackhole()
		within(t, "the stream's end", took(func() { _, _ = r.stream.Recv() }), 12*time.Second, 24*time.Second)
		check(t, "connections", c.Link(cli, 1).Connections(), 0)
	})
}

func TestCluster_TheSameSeedGivesTheSameHistory(t *testing.T) {
	run := func(seed uint64) (history string) {
		opts := Options{Members: 3, Seed: seed, CommitLatency: 2 * ms, CommitJitter: 5 * ms, PeerDelay: ms}
		inBubble(t, opts, func(t *testing.T, c *Cluster) {
			start := time.Now()
			c.OnChange(func(ch Change) { history += fmt.Sprint(ch.Revision, " ", ch.At.Sub(start), "\n") })
			var wg sync.WaitGroup
			for i := range 3 {
				cli := only(t, c, i)
				c.Link(cli, i).SetDelay(ms, 2*ms)
				c.Link(cli, i).SetJitter(3*ms, 3*ms)
				wg.Go(func() {
					for n := range 20 {
						id := mustGrant(t, cli, 2)
						mustPut(t, cli, fmt.Sprint(i), fmt.Sprint(n), clientv3.WithLease(id))
						time.Sleep(time.Duration(i+1) * 100 * ms)
					}
				})
			}
			time.Sleep(1500 * ms)
			c.SetLeader(1)
			wg.Wait()
			time.Sleep(10 * time.Second)
			check(t, "keys", len(c.Keys("")), 0)
			history += fmt.Sprint(c.Revision())
		})
		return history
	}
	first := run(1)
	if second := run(1); second != first {
		t.Errorf("the same seed gave\n%s\nand\n%s", first, second)
	}
	if run(2) == first {
		t.Error("another seed gave the same history")
	}
}
