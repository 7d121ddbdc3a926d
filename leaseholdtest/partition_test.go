// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

func TestIsolate_LeaderIsReplacedAndRejoins(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	clients := make(map[*leaseholdtest.Member]*leaseholdtest.Client)
	for _, m := range c.Members() {
		clients[m] = c.ClientWith(t, leaseholdtest.ClientOptions{Members: []*leaseholdtest.Member{m}})
		must(t, <-putting(t, clients[m]))
	}
	old, err := c.IsolateLeader(within(t, long))
	must(t, err)
	if c.Leader() == old {
		t.Errorf("%s was isolated and leads", old)
	}
	cut := clients[old]
	leaseholdtest.Eventually(t, long, "the isolated member has stepped down", func() bool { return !old.Leads() })
	// The client is connected, and gets answers that need no quorum only.
	if _, err := cut.Status(within(t, long), cut.Endpoints()[0]); err != nil {
		t.Errorf("an isolated member does not answer its client: %v", err)
	}
	c.Rejoin(old)
	must(t, c.Settle(within(t, long)))
	_, err = cut.Get(within(t, long), "key")
	must(t, err)
}

// A follower forwards renewals to the leader in requests that do not name their sender. A cut must stop them too.
func TestCut_StopsForwardedRenewals(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	follower := followers(t, c)[0]
	cl := c.ClientWith(t, leaseholdtest.ClientOptions{Members: []*leaseholdtest.Member{follower}})
	lease, err := cl.Grant(within(t, long), 120)
	must(t, err)
	_, err = cl.KeepAliveOnce(within(t, long), lease.ID)
	must(t, err)
	for _, m := range c.Members() { // whoever leads
		if m != follower {
			c.CutOneWay(follower, m)
		}
	}
	ctx := within(t, 3*short)
	if _, err = cl.KeepAliveOnce(ctx, lease.ID); err == nil || ctx.Err() == nil {
		t.Errorf("a renewal through a cut: %v, want no answer", err)
	}
	for _, m := range c.Members() {
		if m != follower {
			c.Mend(follower, m)
		}
	}
	_, err = cl.KeepAliveOnce(within(t, long), lease.ID)
	must(t, err)
}

func TestCutOneWay_LosesOneDirectionOnly(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	leader, deaf := leaderOf(t, c), followers(t, c)[0]
	swallowed := func(from, to *leaseholdtest.Member) int {
		// What `from` sends is upwards where it has dialled, downwards where it was dialled.
		return c.PeerLink(from, to).Stats().Swallowed[0] + c.PeerLink(to, from).Stats().Swallowed[1]
	}
	c.CutOneWay(leader, deaf)
	leaseholdtest.Eventually(t, long, "something of the leader's is lost", func() bool { return swallowed(leader, deaf) > 0 })
	if n := swallowed(deaf, leader); n != 0 {
		t.Errorf("%d bytes to the leader are lost", n)
	}
	for _, other := range c.Members() {
		if other != leader && other != deaf {
			if n := swallowed(leader, other) + swallowed(other, leader) + swallowed(deaf, other) + swallowed(other, deaf); n != 0 {
				t.Errorf("%d bytes of strangers to the cut are lost", n)
			}
		}
	}
	c.Mend(leader, deaf)
	must(t, c.Settle(within(t, long)))
}

func TestLoseQuorum_NothingCommitsUntilItIsRegained(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	cl := c.Client(t)
	must(t, <-putting(t, cl))
	must(t, c.LoseQuorum(within(t, long)))
	if m := c.Leader(); m != nil {
		t.Errorf("%s is said to lead", m)
	}
	// The server itself fails a write without a leader after some seconds; an answer would have taken milliseconds.
	pending(t, putting(t, c.ClientWith(t, leaseholdtest.ClientOptions{Members: c.Members()[:1]})), "a put without a quorum")
	_, err := c.RegainQuorum(within(t, long))
	must(t, err)
	must(t, <-putting(t, cl))
}

func TestLoseQuorum_ClusterOfOneRefuses(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	if err := c.LoseQuorum(within(t, long)); err == nil {
		t.Error("a cluster of one claims to have lost its quorum")
	}
	if _, err := c.IsolateLeader(within(t, long)); err == nil {
		t.Error("a cluster of one claims to have a new leader")
	}
	c.Isolate(c.Member(0)) // nobody to be cut off from
	if c.PeerLink(c.Member(0), c.Member(0)) != nil {
		t.Error("a member has a link to itself")
	}
	must(t, <-putting(t, c.Client(t)))
}

func TestMoveLeader_MakesTheChosenMemberLead(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	for _, m := range c.Members() {
		// A member that gets too little of a busy machine may lose the office again at once.
		leaseholdtest.Eventually(t, long, m.Name()+" leads", func() bool {
			must(t, c.MoveLeader(within(t, long), m))
			return c.Leader() == m
		})
	}
}

// Each connection must be on the link of the member that dialled it, or a cut would cut the wrong pair.
func TestPeerLink_EveryPairHasItsOwn(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	for _, from := range c.Members() {
		for _, to := range c.Members() {
			if from == to {
				continue
			}
			leaseholdtest.Eventually(t, long, from.Name()+" has dialled "+to.Name(), func() bool {
				return c.PeerLink(from, to).Stats().Open > 0
			})
		}
	}
	// A member that is down dials nobody; the links of the others stay up.
	down, up := c.Member(2), c.Member(1)
	must(t, down.Kill(within(t, long)))
	for _, other := range c.Members()[:2] {
		leaseholdtest.Eventually(t, long, "no connections of a killed member are left", func() bool {
			return c.PeerLink(down, other).Stats().Open == 0 && c.PeerLink(other, down).Stats().Open == 0
		})
	}
	if c.PeerLink(c.Member(0), up).Stats().Open == 0 {
		t.Error("two members that run have no connections")
	}
}

func TestPeerLink_DelaysTheCommit(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	cl := c.Client(t)
	must(t, <-putting(t, cl))
	const delay = 100 * time.Millisecond
	for _, from := range c.Members() { // whoever leads
		for _, to := range c.Members() {
			if from != to {
				c.PeerLink(from, to).Delay(leaseholdtest.Both, delay, 0)
			}
		}
	}
	begin := time.Now()
	must(t, <-putting(t, cl))
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a put took %v, want at least a round trip of %v between members", took, 2*delay)
	}
}
