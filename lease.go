// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
)

// A lease is the holder's belief in an etcd lease: until when, and once it has ended, why. It ends once (R3).
//
// Races. An answer can arrive while the expiry passes, and a check can run at the same time. All changes are made under
// mu, each with a clock reading of its own taken inside, so that they are in one order: an extension is made only
// while the expiry lies ahead at that reading (R2), and a check that has once found the expiry passed ends the lease
// before it answers, so that no later extension can contradict it.
type lease struct {
	id      clientv3.LeaseID
	granted time.Duration // as the grant's answer says, not as asked
	allow   allowance
	clk     *clock.Clock

	// expiry is the local expiry as an Instant; it rises while the lease lives and is longAgo once it has ended. It is
	// written under mu and read without, so that a check costs one load and one clock reading.
	expiry atomic.Int64

	mu    sync.Mutex // a leaf: nothing else is locked under it
	cause error      // why the lease ended; set once, together with expiry = longAgo
}

const longAgo = math.MinInt64

// live reports whether the local expiry lies ahead. If it finds it passed, it returns false from then on, and ended is
// true for the one call that found it.
func (l *lease) live() (live, ended bool) {
	expiry := l.expiry.Load()
	if expiry == longAgo {
		return false, false
	}
	if l.clk.Now().Before(clock.Instant(expiry)) {
		return true, false
	}
	// Passed, unless an extension came between the load and the reading: that one was in time, so ask again under mu.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false, false
	}
	if l.clk.Now().Before(clock.Instant(l.expiry.Load())) {
		return true, false
	}
	l.endLocked(ErrExpired)
	return false, true
}

// extend moves the expiry forward to what a renewal sent at sent with the answered term allows. It reports whether the
// lease is still alive; an answer that came too late ends it.
func (l *lease) extend(sent clock.Instant, term time.Duration) (alive bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) {
		l.endLocked(ErrExpired) // R2: whatever the answer says
		return false
	}
	if e := l.allow.expiry(sent, term); e.After(clock.Instant(l.expiry.Load())) {
		l.expiry.Store(int64(e))
	}
	return true
}

// end ends the belief for a reason, unless it has ended before.
func (l *lease) end(reason error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return false
	}
	if !l.clk.Now().Before(clock.Instant(l.expiry.Load())) {
		reason = ErrExpired // it had ended already, only nobody had looked
	}
	l.endLocked(reason)
	return true
}

func (l *lease) endLocked(reason error) {
	l.cause = reason
	l.expiry.Store(longAgo)
}

// ended reports whether the lease is known to have ended. It takes no lock and reads no clock.
func (l *lease) ended() bool { return l.expiry.Load() == longAgo }

// reason is why the lease ended, nil while it lives. The expiry itself is not looked at.
func (l *lease) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cause
}

// remaining is the time left until the local expiry, zero once it has passed.
func (l *lease) remaining() time.Duration {
	expiry := l.expiry.Load()
	if expiry == longAgo {
		return 0
	}
	return max(0, clock.Instant(expiry).Sub(l.clk.Now()))
}
