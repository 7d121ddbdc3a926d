// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"cmp"
	"time"
)

// Options says what cluster to build. The zero value is one member with etcd's default settings in a network without
// delay.
type Options struct {
	// Members is the number of members; 1 if zero.
	Members int
	// Seed feeds every random source of the fake.
	Seed uint64
	// ElectionTimeout is etcd's election timeout; 1s if zero. A member that hears of no leader for that long knows
	// none, and leases are granted for one and a half of it at the least.
	ElectionTimeout time.Duration
	// CommitLatency is how long a proposal takes from the leader to a quorum; none if zero.
	CommitLatency time.Duration
	// CommitJitter adds a random part below it to each CommitLatency. Proposals still commit in order.
	CommitJitter time.Duration
	// ApplyLatency is how long after its commit a proposal is applied by the leader; none if zero.
	ApplyLatency time.Duration
	// PeerDelay is how long a message takes from one member to another; none if zero.
	PeerDelay time.Duration
	// MaxTxnOps bounds the operations of a transaction; 128 if zero.
	MaxTxnOps int
	// MaxRequestBytes bounds a request that is proposed; 1.5 MiB if zero.
	MaxRequestBytes int
	// ProgressInterval is how often watchers that ask for it are told of the progress of a silent watch; 10m if zero.
	ProgressInterval time.Duration
	// Version is what members report; "3.7.3" if empty. It changes nothing else: see Lease.
	Version string
	// ClusterID is in the header of every answer; a fixed number if zero.
	ClusterID uint64
	// Lease is how members handle leases: as etcd 3.7.3 does if zero.
	Lease LeaseBehaviour
	// Auth turns authentication on; nil leaves it off.
	Auth *Auth
}

// LeaseBehaviour sets apart how different versions of etcd renew a lease.
type LeaseBehaviour struct {
	// WaitApplied makes a leader wait before each renewal until it has applied all that is committed, as etcd does
	// before 3.7 and since then still for renewals that a follower forwards. Without it a renewal that arrives
	// between the commit of a revoke and its application is answered with a full term.
	WaitApplied bool
	// RenewStall is how long a renewal takes between finding that its lease has not expired and moving the expiry. Real
	// servers need microseconds, and as long as the scheduler likes.
	RenewStall time.Duration
	// NoRecheck makes a renewal that stalled not look whether its lease was revoked meanwhile, as before 3.5.23 and
	// 3.6.5: it is answered with a full term.
	NoRecheck bool
	// FormerLeaderRenews makes a leader that is cut off from the others go on answering renewals until it hears of
	// another, as before 3.4.31 and 3.5.13 when it is stuck.
	FormerLeaderRenews bool
	// ResumedStepsDown makes a leader that goes on after a pause find first whether another was elected meanwhile. Real ones,
	// 3.7.3 included, take themselves for the leader until they hear of the other or an election timeout has passed, and
	// acknowledge renewals if nobody reaches them: the check of a leader that was stuck looks at whether its ticks go on, which
	// they do by then.
	ResumedStepsDown bool
}

const (
	scanInterval      = 500 * time.Millisecond // of a lessor for expired leases
	revokeRetry       = 3 * time.Second        // before a lease found expired is revoked again
	revokesPerScan    = 500
	watchSyncInterval = 100 * time.Millisecond // of the group of watchers that are behind
	watchBatch        = 1000                   // revisions that such a watcher is sent at once
	applyTimeout      = time.Second            // of waiting for the committed to be applied
	forwardRetry      = 50 * time.Millisecond  // between attempts to forward a renewal to the leader
	maxLeaseTTL       = 9000000000             // seconds
	firstClusterID    = 0xfa4e_c1d0_0000_0001
	firstMemberID     = 0xfa4e_0000_0000_0001
)

func (o Options) withDefaults() Options {
	o.Members = max(o.Members, 1)
	o.ElectionTimeout = cmp.Or(o.ElectionTimeout, time.Second)
	o.MaxTxnOps = cmp.Or(o.MaxTxnOps, 128)
	o.MaxRequestBytes = cmp.Or(o.MaxRequestBytes, 3<<19)
	o.ProgressInterval = cmp.Or(o.ProgressInterval, 10*time.Minute)
	o.Version = cmp.Or(o.Version, "3.7.3")
	o.ClusterID = cmp.Or(o.ClusterID, firstClusterID)
	return o
}

// minTTL is the smallest term a lease is granted for, in seconds.
func (o Options) minTTL() int64 {
	half := o.ElectionTimeout * 3 / 2
	return int64((half + time.Second - 1) / time.Second)
}

// requestTimeout is how long a member waits for a quorum before it fails a request.
func (o Options) requestTimeout() time.Duration { return 5*time.Second + 2*o.ElectionTimeout }
