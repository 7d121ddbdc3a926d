// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

func TestMember_RestartKeepsDataPortsAndID(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, end := range []struct {
			name string
			end  func(*leaseholdtest.Member, context.Context) error
		}{{"stop", (*leaseholdtest.Member).Stop}, {"kill", (*leaseholdtest.Member).Kill}} {
			t.Run(fmt.Sprint(members, end.name), func(t *testing.T) {
				c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
				cl := c.Client(t)
				put, err := cl.Put(within(t, long), "key", "value")
				must(t, err)
				m := leaderOf(t, c)
				id, endpoint := m.ID(), m.Endpoint()

				must(t, end.end(m, within(t, long)))
				must(t, end.end(m, within(t, long))) // of a member that does not run: no error
				if m.Running() || m.Leads() {
					t.Error("the member is said to run")
				}
				if members > 1 && leaderOf(t, c) == m {
					t.Error("a member that does not run is said to lead")
				}
				if conn, err := net.Dial("tcp", strings.TrimPrefix(endpoint, "http://")); err == nil {
					_ = conn.Close()
					t.Error("the member's port accepts connections")
				}
				must(t, m.Restart(within(t, long)))
				if m.ID() != id || m.Endpoint() != endpoint {
					t.Errorf("came back as %x at %s, was %x at %s", m.ID(), m.Endpoint(), id, endpoint)
				}
				must(t, c.Settle(within(t, long)))
				got, err := cl.Get(within(t, long), "key")
				must(t, err)
				if len(got.Kvs) != 1 || got.Kvs[0].ModRevision != put.Header.Revision {
					t.Errorf("the key came back as %v, was written at revision %d", got.Kvs, put.Header.Revision)
				}
			})
		}
	}
}

func TestMember_RestartOfARunningMemberStopsItFirst(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	w := cl.Watch(clientv3.WithRequireLeader(within(t, long)), "key", clientv3.WithCreatedNotify())
	<-w
	before := cl.Link(c.Member(0)).Stats().Accepted
	must(t, c.Member(0).Restart(within(t, long)))
	leaseholdtest.Eventually(t, long, "the client has connected again", func() bool {
		return cl.Link(c.Member(0)).Stats().Accepted > before
	})
}

func TestMember_KillResetsAllConnectionsAtOnce(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl, direct := c.Client(t), c.DirectClient(t)
	for _, cl := range []*clientv3.Client{cl.Client, direct} {
		_, err := cl.Put(within(t, long), "key", "value")
		must(t, err)
	}
	must(t, c.KillAll(within(t, long)))
	for name, cl := range map[string]*clientv3.Client{"linked": cl.Client, "direct": direct} {
		ctx := within(t, long)
		conn := cl.ActiveConnection()
		for s := conn.GetState(); s.String() == "READY"; s = conn.GetState() {
			if !conn.WaitForStateChange(ctx, s) {
				t.Fatalf("the %s client still holds its connection for good", name)
			}
		}
	}
	must(t, c.RestartAll(within(t, long)))
}

func TestMember_PauseHoldsWhatGoesInAndOut(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	m := c.Member(0)
	old := c.Client(t)
	must(t, <-putting(t, old))
	m.Pause()
	m.Pause() // again: nothing
	fresh := c.Client(t)
	fromOld, fromFresh := putting(t, old), putting(t, fresh)
	pending(t, fromOld, "a put to a paused member")
	pending(t, fromFresh, "the first put of a client made while the member was paused")
	_, err := c.DirectClient(t).Get(within(t, long), "key")
	must(t, err) // past the pause
	m.Resume()
	must(t, <-fromOld)
	must(t, <-fromFresh)
	if n := old.Link(m).Stats().Accepted; n != 1 {
		t.Errorf("the pause cost a connection: %d accepted, want 1", n)
	}
}

func TestMember_PausedLeaderLosesItsOffice(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	m := leaderOf(t, c)
	m.Pause()
	leaseholdtest.Eventually(t, long, "another member leads", func() bool { return c.Leader() != nil && c.Leader() != m })
	m.Resume()
	must(t, c.Settle(within(t, long)))
}

func TestMember_StopHandsLeadershipOver(t *testing.T) {
	// With an election timeout that nobody would wait for, a new leader can only be one that was asked to be.
	const election = 15 * time.Second
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3, Heartbeat: 500 * time.Millisecond, Election: election})
	m := leaderOf(t, c)
	begin := time.Now()
	must(t, m.Stop(within(t, long)))
	next := leaderOf(t, c)
	if took := time.Since(begin); next == m || took > election {
		t.Errorf("%s led after %v, want another member without an election timeout", next, took)
	}
}
