// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLessor_ExpiryIsArrivalPlusTerm(t *testing.T) {
	inBubble(t, Options{Members: 3, PeerDelay: 5 * ms}, func(t *testing.T, c *Cluster) {
		id := mustGrant(t, c.Client(t), 10)
		for _, m := range []struct {
			member  int
			forward time.Duration
		}{{0, 0}, {1, 5 * ms}} {
			cli := only(t, c, m.member)
			r := renewing(t.Context(), t, cli)
			r.renew(id) // connected from here on
			c.Link(cli, m.member).SetDelay(20*ms, 30*ms)
			sent := time.Now()
			check(t, "round trip", took(func() { r.renew(id) }), 50*ms+2*m.forward)
			at, ok := c.LeaseExpiry(id)
			check(t, "expiry", at.Sub(sent), 10*time.Second+20*ms+m.forward)
			check(t, "known", ok, true)
		}
	})
}

func TestLessor_ScansEveryHalfSecond(t *testing.T) {
	inBubble(t, Options{Seed: 1, CommitLatency: 10 * ms}, func(t *testing.T, c *Cluster) {
		gone := make(chan time.Time, 10)
		c.OnChange(func(ch Change) {
			if len(ch.Keys("")) == 0 {
				gone <- ch.At
			}
		})
		cli := c.Client(t)
		var phase time.Duration
		for i := range 10 {
			id := mustGrant(t, cli, 5)
			at, _ := c.LeaseExpiry(id)
			mustPut(t, cli, "a", "", clientv3.WithLease(id))
			when := <-gone
			within(t, "late", when.Sub(at), 10*ms, 510*ms)
			p := time.Duration(when.UnixNano()) % scanInterval
			if i > 0 {
				check(t, "phase", p, phase)
			}
			phase = p
			time.Sleep(137 * ms)
		}
	})
}

func TestLessor_ALeaseWithALaterExpiryDoesNotHideAnEarlierOne(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		mustGrant(t, cli, 300)
		mustGrant(t, cli, 5)
		time.Sleep(6 * time.Second)
		check(t, "leases", len(c.Leases()), 1)
	})
}

func TestLessor_TheClockThatCountsIsTheLeadersOwn(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		expiry := func(id clientv3.LeaseID) time.Duration {
			at, ok := c.LeaseExpiry(id)
			check(t, "known", ok, true)
			return time.Until(at).Round(time.Microsecond)
		}
		c.Member(0).SetClockRate(1.25)
		id := mustGrant(t, cli, 100)
		check(t, "fast", expiry(id), 80*time.Second)
		time.Sleep(40 * time.Second)
		c.Member(0).SetClockRate(0.5)
		check(t, "slow after half", expiry(id), 100*time.Second)
		c.Member(0).StopClock()
		time.Sleep(time.Hour)
		if _, ok := c.LeaseExpiry(id); ok {
			t.Error("a lease expires by a clock that stands still")
		}
		check(t, "leases", len(c.Leases()), 1)
		c.Member(0).SetClockRate(1)
		c.Member(0).StartClock()
		check(t, "on again", expiry(id), 50*time.Second)
		time.Sleep(51 * time.Second)
		check(t, "leases", len(c.Leases()), 0)
	})
}

func TestLessor_ARenewalOfAnExpiredLeaseWaitsForItsRevocation(t *testing.T) {
	inBubble(t, Options{CommitLatency: 300 * ms}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 5)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		r := renewing(t.Context(), t, cli)
		at, _ := c.LeaseExpiry(id)
		time.Sleep(time.Until(at))
		var ttl int64
		wait := took(func() { ttl = r.renew(id) })
		check(t, "TTL", ttl, 0)
		within(t, "wait", wait, 300*ms, 800*ms)
		check(t, "keys", len(c.Keys("a")), 0)
	})
}

// A revoke that is committed and not applied yet does not keep a lease from being renewed: 3.7 answers with a full
// term what an older server makes wait.
func TestLessor_ARevokeUnderWayIsSeenByOldServersOnly(t *testing.T) {
	for _, tc := range []struct {
		name string
		old  bool
		ttl  int64
	}{{"3.7", false, 60}, {"before", true, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			opts := Options{ApplyLatency: 500 * ms, Lease: LeaseBehaviour{WaitApplied: tc.old}}
			inBubble(t, opts, func(t *testing.T, c *Cluster) {
				cli := c.Client(t)
				id := mustGrant(t, cli, 60)
				r := renewing(t.Context(), t, cli)
				go func() { _, _ = cli.Revoke(t.Context(), id) }()
				time.Sleep(250 * ms)
				check(t, "TTL while the revoke is committed", r.renew(id), tc.ttl)
				time.Sleep(time.Second)
				check(t, "leases", len(c.Leases()), 0)
				check(t, "TTL afterwards", r.renew(id), 0)
			})
		})
	}
}

func TestLessor_AForwardedRenewalWaitsForWhatIsCommitted(t *testing.T) {
	inBubble(t, Options{Members: 3, ApplyLatency: 500 * ms}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 1)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		go func() { _, _ = cli.Revoke(t.Context(), id) }()
		time.Sleep(250 * ms)
		check(t, "TTL", r.renew(id), 0)
	})
}

// A renewal finds its lease alive, stalls, and moves the expiry of a lease whose revocation has been proposed meanwhile.
func TestLessor_AStalledRenewalRacesTheScan(t *testing.T) {
	for _, tc := range []struct {
		name      string
		behaviour LeaseBehaviour
		commit    time.Duration
		ttl       int64
	}{
		{"revoke still under way", LeaseBehaviour{RenewStall: time.Second}, 2 * time.Second, 5},
		{"revoked", LeaseBehaviour{RenewStall: time.Second}, 0, 0},
		{"revoked, old server", LeaseBehaviour{RenewStall: time.Second, NoRecheck: true}, 0, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, Options{CommitLatency: tc.commit, Lease: tc.behaviour}, func(t *testing.T, c *Cluster) {
				cli := c.Client(t)
				id := mustGrant(t, cli, 5)
				r := renewing(t.Context(), t, cli)
				at, _ := c.LeaseExpiry(id)
				time.Sleep(time.Until(at) - ms)
				check(t, "TTL", r.renew(id), tc.ttl)
				time.Sleep(4 * time.Second)
				check(t, "leases", len(c.Leases()), 0)
			})
		})
	}
}

func TestLessor_OneStuckRenewalHoldsUpItsStreamOnly(t *testing.T) {
	inBubble(t, Options{CommitLatency: 400 * ms}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		short, long := mustGrant(t, cli, 5), mustGrant(t, cli, 60)
		a, b := renewing(t.Context(), t, cli), renewing(t.Context(), t, cli)
		at, _ := c.LeaseExpiry(short)
		time.Sleep(time.Until(at))
		a.send(short)
		a.send(long)
		check(t, "another stream", took(func() { b.renew(long) }), 0)
		if waited := took(func() { a.next() }); waited < 400*ms {
			t.Errorf("the expired one was answered after %v", waited)
		}
		check(t, "the one behind it", took(func() { check(t, "TTL", a.next().TTL, 60) }), 0)
	})
}

func TestLessor_ALeaderWithoutQuorumRevokesNothing(t *testing.T) {
	inBubble(t, Options{Members: 3, Lease: LeaseBehaviour{FormerLeaderRenews: true}}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 0)
		mustGrant(t, cli, 5)
		c.Member(1).Isolate()
		c.Member(2).Isolate()
		time.Sleep(time.Minute)
		check(t, "leases", len(c.Leases()), 1)
		c.Member(1).Rejoin()
		time.Sleep(4 * time.Second)
		check(t, "leases", len(c.Leases()), 0)
	})
}

func TestLessor_ManyLeasesAreRevokedAThousandASecond(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		for range 1200 {
			mustGrant(t, cli, 5)
		}
		at, _ := c.LeaseExpiry(c.Leases()[0])
		time.Sleep(time.Until(at) + 500*ms)
		synctest.Wait()
		check(t, "after a scan", len(c.Leases()), 700)
		time.Sleep(500 * ms)
		synctest.Wait()
		check(t, "after two", len(c.Leases()), 200)
	})
}

func TestLessor_NothingIsLeftToDoWithoutLeases(t *testing.T) {
	inBubble(t, Options{Members: 3, CommitLatency: ms}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		if _, err := cli.Revoke(context.WithoutCancel(t.Context()), id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		check(t, "events on the agenda", len(c.agenda.events), 0)
	})
}
