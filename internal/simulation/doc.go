// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the whole SDK, with etcd's real client, against a fake cluster under seeded schedules of everything that can
// go wrong, and holds what everybody believes against the truth at every step.
//
// It is for tests and for the command in cmd. A [Plan] is drawn from a seed ([New]) or read from text ([Parse]): a [World], which says
// how many members and hosts there are, how slow everything is and how wrong the clocks are, and steps, each at its time. [Run]
// executes it in a testing/synctest bubble of its own: half a minute of simulated time takes some tens of milliseconds.
//
// # The world
//
// One to five members; one to three hosts, each a machine with a clock, an etcd client and two users on it: a pool (leasehold.Client) and
// a session. Users lock, try, do, campaign, proclaim, observe and ask, with contexts that end at any time; they close, abandon, or lose
// the etcd client from under them. Meanwhile members stop, pause, fall silent, lag and are cut off, leaders change, clocks drift up to
// the bound, stand still or leap, networks hold, delay, lose, refuse and reset, single requests are late, lost, or applied twice, an
// operator deletes, overwrites and revokes, histories are compacted, disks are full, and now and then the cluster is restored from a
// backup or replaced. Rates of clocks are relative: the members' run fast or slow by all that the bound allows for both sides.
//
// # What must hold
//
// At every revision of the store when it is applied, before anybody can have learned of it; after every call; as soon as a fault has begun
// or ended; and ten times a second:
//
//	expiry         no session believes beyond the grantor's expiry less the margin
//	freed          no key goes while its holder believes in it
//	two holders    no name has two valid grants
//	resurrection   what was once invalid is not valid again
//	token          tokens rise along the holders of a name; for one etcd client even when the cluster goes back in time
//	no key         a grant is made only with its key in the store, and
//	not first      no older one in the line, but for keys that a backup has brought back
//	not told       who lost a grant to an operator knows it in time (R10)
//	timer, reason  contexts end with their grants, without being asked, and say why
//	false alarm    nobody is told of an operator or a backup that there was not
//	needless loss  nobody loses a lease in calm
//	locked         TryLock is refused only where somebody stands in line
//	release        what Release says is gone is gone
//	bounded        calls return when their contexts end (R11)
//	error          there are few errors that a caller may get
//	observe        an observer is never told something older than before
//
// and when the schedule is over and everything works again:
//
//	stuck          a newcomer gets every name within a bound, while the sessions of all others live on
//	close          everything can be closed
//	left behind    then no key and no lease is left within a term
//
// and no goroutine: a bubble with one left ends the process.
//
// Two holders are allowed while one of them has not been told yet that an operator took its key away, or that the cluster went back. When
// it must know depends on whether anything disturbs its host: see bounds.
//
// # Repeating
//
// A seed stands for one schedule. It does not stand for one execution: goroutines take turns as the scheduler likes, and the SDK, gRPC
// and etcd's client draw random numbers of their own. So a failing schedule is repeated some hundred times, and shrunk with repetitions.
//
// # Goroutines
//
// In the bubble: one plays the steps; each step has one of its own, which ends when its call has returned or its fault is repaired; one
// makes the judge look. All end before Run returns.
package simulation
