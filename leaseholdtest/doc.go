// SPDX-License-Identifier: Apache-2.0

// Package leaseholdtest runs real etcd clusters inside a test, and breaks them on purpose: for the integration
// tests of any service that uses etcd, with or without package leasehold.
//
//	func TestFailover(t *testing.T) {
//		leaseholdtest.NoGoroutines(t)
//		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
//		cl := c.Client(t) // its Client field is a *clientv3.Client with default settings
//
//		svc := startMyService(t, cl.Client)
//		if _, err := c.IsolateLeader(t.Context()); err != nil { // etcd's leader, not the service's
//			t.Fatal(err)
//		}
//		leaseholdtest.Eventually(t, time.Minute, "the service works again", svc.Works)
//	}
//
// To cut off the leader of a service of several replicas, give each replica a client of its own and use
// [Client.Blackhole]: its example does. docs/testing-your-service.md goes through the tests of such a service.
//
// The members are embedded etcd servers on loopback ports, with short ticks: a cluster of one starts in a tenth of a
// second, one of three within a second, and leases of one second are granted as asked. [Start] ends with its test and
// leaves no goroutine, no file and no open port. Programs use [StartCluster] and [Cluster.Close]. Nothing is logged
// unless [Options.Logger] says so.
//
// # What it is not
//
// A member is not a process. [Member.Kill] resets its connections at once and finishes nothing, but its files are
// closed in order; data that a power cut would lose is not lost. [Member.Pause] freezes what goes in and out, as
// stopping the process would look from outside, but the member's own clock goes on. All members share the test's
// processors: a machine that is busy for longer than [Options.Election] changes leaders without being told to.
//
// # Clients and links
//
// A client from [Cluster.Client] or [Cluster.NewClient] reaches each member through a [Link] of its own, a TCP proxy
// in this process. A fault on a link concerns one client and one member, and can be changed at any time:
//
//	link := cl.Link(c.Member(0))
//	link.Hold(leaseholdtest.Down)       // answers are kept, requests go through
//	link.Release(leaseholdtest.Down)    // they arrive late
//	link.Blackhole(leaseholdtest.Both)  // bytes vanish, nothing is reset
//	link.Delay(leaseholdtest.Both, 50*time.Millisecond, 10*time.Millisecond)
//	link.Limit(leaseholdtest.Down, 64<<10)
//	link.Reset()                        // RST, once
//	link.Refuse()                       // RST, and again for each new connection
//	link.Heal()
//
// [Link.Hold] is an outage that TCP survives: afterwards the bytes are delivered. [Link.Blackhole] is one that it does
// not: afterwards, connections that lost bytes are reset. Under both, a new connection is accepted and then silent.
// [Link.Stats] counts what was delivered, held and lost: tests wait for it with [Eventually] instead of sleeping.
//
// A client from [Cluster.DirectClient] goes past all that, and so does the operator, whose methods take things away
// behind a service's back: [Cluster.RevokeLease], [Cluster.Delete], [Cluster.Overwrite], [Cluster.Compact].
//
// # The cluster
//
//   - Members: [Member.Stop], [Member.Kill], [Member.Restart] with the same data and ports, [Member.Pause].
//   - etcd's leader: [Cluster.WaitLeader], [Cluster.MoveLeader], [Cluster.IsolateLeader].
//   - Partitions: [Cluster.Cut] and [Cluster.CutOneWay] for any pair, [Cluster.Isolate], [Cluster.LoseQuorum]. A cut
//     stops all that goes from one member to another, lease renewals that a follower forwards included.
//   - The past: [Cluster.Save] and [Cluster.Rollback], [Cluster.Wipe], and [Cluster.Replace] by another cluster,
//     all under live clients.
//   - Accounts: [Cluster.EnableAuth] with users that are kept to their prefixes; [Options.AuthTokenTTL].
//   - Space: [Cluster.RaiseNoSpace] and [Cluster.ClearAlarms]; [Options.QuotaBytes].
//
// # Random faults
//
// A [Schedule] is a list of faults and repairs. [RandomSchedule] draws one for a test and, if the test fails, logs
// how to repeat it: by its seed, or by its text, which can be shortened by hand. [Cluster.Play] makes it happen and
// leaves a healthy cluster behind.
//
// # Concurrency
//
// Everything here can be used by several goroutines at once. Methods that start and stop a member wait for each
// other, member by member. Several clusters can run in one process; they share nothing. This package makes etcd
// preallocate 4 MB instead of 64 MB for each piece of a log, for all etcd servers in the process.
package leaseholdtest
