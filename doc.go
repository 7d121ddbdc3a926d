// SPDX-License-Identifier: Apache-2.0

// Package leasehold holds locks and leads elections over etcd leases. Each grant carries a fencing token and has a
// conservative expiry of the holder's own.
//
// # What is not promised
//
// A lease cannot stop a process. Between a check and the write that follows it a process can be paused for any time: by the
// scheduler, a garbage collection, a debugger, a virtual machine that moves. When it goes on, somebody else may hold
// the name. So an expiry says only that the old holder should have stopped, and makes two holders at work
// improbable. What makes a late write impossible is a resource that compares tokens: send [Grant.Token] along with
// every write and have the resource refuse one that is lower than the highest it has seen. [Fence] does so in memory,
// [Grant.Txn] in etcd itself, the packages under fence/ in databases, caches and services. A resource that cannot compare
// is protected only as well as its writers keep time.
//
// Nor is promised what etcd does not: a cluster without a quorum grants and renews nothing, and a lock is then lost when its
// term is over. The bound on clock rates ([Config.DriftBound]) is an assumption; a clock that is worse breaks the expiry, but not
// the tokens. A name has one line of holders only within one cluster and one prefix.
//
// The words are those of docs/protocol.md. The grantor is the member of etcd that keeps the time of a lease, the holder a process that
// acts under it. A term is what one renewal is good for. The line of a name is the keys of who holds it and of who waits. Belief is
// what a holder acts on while its own expiry lies ahead. R1 to R13 are the rules of the protocol, given there with their reasons.
//
// # What is promised
//
// Tokens of one name strictly increase along its holders. A grant's validity ends, by the holder's own clock, before etcd
// can give the name to anybody else:
//
//	expiry = t0 + d*(1-rho)/(1+rho) - eps
//
// where t0 was read before the request was sent that granted or last renewed the lease, d is the term in its answer,
// rho bounds the rate error of each of the two clocks (1e-3 by default), and eps is a margin (100 ms). The clock counts the time
// for which the machine sleeps. An answer that arrives after the expiry is discarded, whatever it says. A lost grant is never revived
// or silently taken again. Whoever waits, waits in the order in which the keys reached etcd. A key that nobody claims is removed.
//
// # The life of a grant
//
//	session, err := leasehold.NewSession(ctx, etcdClient, leasehold.Config{}) // one lease, kept alive
//	grant, err := session.Lock(ctx, "nightly-report")                       // waits in line
//	write(grant.Token(), ...)                                               // the resource compares
//	err = grant.Release(ctx)                                                // belief ends, then the key goes
//
// A session is open until it is lost or closed; both happen once and take all its grants and waiters along. A grant is valid
// until it is released, its session ends, or somebody deletes or overwrites its key. [Grant.Valid] asks the clock at
// each call; [Grant.Context] ends by a timer at the expiry at the latest, even if every packet is lost. The cause of that context, and
// Err, tell why: [ErrExpired], [ErrRevoked], [ErrReleased], [ErrClosed] or [ErrRolledBack].
//
// [Client] is a pool of sessions for services that hold many locks or want a lost session replaced. [Election] is the same
// line with values that others observe.
//
// # Concurrency properties
//
// Everything exported is safe for concurrent use. Methods that take a context return when it ends, apart from a small
// delay, and leave the rest to the background: an acquire that was under way is taken back, a release is completed. Methods without
// a context do not block; Valid, Remaining, Token and the like take no lock and do not allocate.
//
// The sessions of one etcd client share one keepalive stream and one watch stream, each to one member at a time, on connections of
// their own. The number of goroutines depends neither on the number of sessions nor on that of grants. They end when the last
// session has ended, and Close of the last session waits for them. No callback runs on them; functions registered with
// [context.AfterFunc] on a session's or grant's context run in goroutines of their own.
package leasehold
