// SPDX-License-Identifier: Apache-2.0

// Package etcdfake is a fake etcd cluster for tests of timing: real etcd clients talk gRPC over an in-memory network to
// members that share one simulated log. In a testing/synctest bubble an hour passes in milliseconds and every instant
// is exact.
//
//	synctest.Test(t, func(t *testing.T) {
//		fake := etcdfake.NewForTest(t, etcdfake.Options{Members: 3, Seed: 1, CommitLatency: 2 * time.Millisecond})
//		client := fake.Client(t)
//		fake.Link(client, 0).SetDelay(time.Millisecond, 5*time.Millisecond)
//		fake.OnChange(func(ch etcdfake.Change) { ... ch.Keys("jobs/") ... })
//		fake.Member(0).Pause()
//		...
//	})
//
// # What it is not
//
// It is a model of what a client can observe, not of etcd. There is no raft: one list of entries is proposed, committed
// and applied at instants that the options set, and faults decide who takes part. Nothing is stored. Users, membership
// and alarms can only be set up by the test. Package conformance holds suites that run on this fake and on embedded
// etcd, so that the two cannot drift apart in what those cover.
//
// # What is modelled
//
//   - The key space with its whole history: ranges, transactions, compares over ranges, watches, compaction.
//   - Leases as the lessor of etcd 3.7 keeps them: timed by the leader's own clock, which can run fast, slow or not at
//     all; renewed without a log entry; looked through every 500 ms and revoked through the log; started again in full
//     by a new leader. LeaseBehaviour has the ways of older servers.
//   - Members that stop, pause, fall silent, lag or are cut off; elections, which decide what becomes of proposals under
//     way; streams that require a leader; requests that time out.
//   - A network with delay, jitter and loss for each direction between each client host and each member, which can hold
//     bytes back and deliver them later.
//   - Hooks that delay, repeat, fail or lose single requests and answers.
//   - A cluster that is replaced, or rolled back to a backup, under live clients.
//
// Left out are lease checkpoints, the spreading of expiries when a new leader finds a thousand leases or more, slow
// watchers, fragments of large watch answers, streamed ranges, and the lease id that a real member puts together from
// its own.
//
// # Concurrency properties
//
// One mutex guards the whole cluster; nobody waits while holding it. What happens at a chosen instant is entered in an
// agenda, which runs it under that mutex in the order of instants, with one timer for the earliest. Goroutines: two for
// each member, one that serves gRPC and one that confirms the leader for linearizable reads, and those of gRPC's
// connections and streams. Close ends all of them.
//
// Random numbers come from the seed; those of the network are a function of the seed, the link, the direction and the
// instant. The order in which goroutines of clients run at one instant is the Go scheduler's, and gRPC and etcd's
// client draw their own when they back off. Give links some jitter and events rarely share an instant.
//
// Channels belong to the bubble in which they were made, so a cluster and its clients belong to one bubble, and must be
// closed before it ends: NewForTest and Client see to that. When nothing is under way and no lease exists the fake has
// no timer, so that synctest still finds deadlocks.
package etcdfake
