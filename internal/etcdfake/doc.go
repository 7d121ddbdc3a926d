// SPDX-License-Identifier: Apache-2.0

// Package etcdfake is a fake etcd cluster for tests of timing: real etcd clients talk gRPC over an in-memory network to members that share
// one simulated log. In a testing/synctest bubble an hour passes in milliseconds and every instant is exact.
//
// # What it is not
//
// It is a model of what a client can observe, not of etcd. There is no raft: one list of entries is proposed, committed and applied at instants
// that the options set, and faults decide who takes part. Nothing is stored. Users, roles, membership and alarms can only be set up
// from the test. Package conformance holds one suite that runs on this fake and on an embedded etcd, so that the two cannot drift apart in what it covers.
//
// # What is modelled
//
//   - The key space with its whole history: ranges, transactions, compares over ranges, watches from any revision, compaction.
//   - Leases as the lessor of etcd 3.7 keeps them: by the leader's own clock, which can run fast, slow or not at all; renewed without a log entry; looked
//     through every 500 ms and revoked through the log; started again in full by a new leader. LeaseBehaviour has the ways of older servers.
//   - Members that stop, pause, fall silent, lag or are cut off; elections; streams that require a leader; requests that time out.
//   - A network with a delay, jitter and loss for each direction between each client host and each member, which can hold bytes back and deliver them later.
//   - Hooks that delay, repeat, fail or lose single requests and answers.
//   - A cluster that is replaced, or rolled back to a backup, under live clients.
//
// # Concurrency properties
//
// One mutex guards the whole cluster; it is not held while anybody waits. What happens at a chosen instant is entered in an agenda, which runs
// it under that mutex in the order of instants. Goroutines: one per gRPC server and those of its connections and streams, ended by Close; one timer.
// Random numbers come from the seed, those of the network from a source for each direction of each link; the order in which goroutines
// of clients run at one instant is the Go scheduler's.
//
// Channels belong to the bubble in which they were made, so a cluster and its clients belong to one bubble, and must be closed before it ends:
// NewForTest and Client do so by themselves.
package etcdfake
