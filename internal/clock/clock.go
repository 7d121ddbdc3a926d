// SPDX-License-Identifier: Apache-2.0

// Package clock reads a monotonic clock that counts the time which the machine sleeps (R5).
//
// Go's monotonic time is not enough on every platform: Linux's CLOCK_MONOTONIC and macOS's mach_absolute_time stand
// still while the machine sleeps, the grantor's clock does not, and a holder that wakes would believe in a lease which
// ended in the night. No package of the standard library reads a clock that goes on, hence this one.
//
//	platform     source                                      counts suspend
//	Linux        CLOCK_BOOTTIME                              yes, if the kernel answers for it
//	macOS, iOS   CLOCK_MONOTONIC_RAW (mach_continuous_time)  yes
//	Windows      Go's monotonic time (interrupt time)        yes; coarse, by up to 16 ms
//	others       Go's monotonic time                         unknown, taken as no
//
// Go's timers need not follow this clock: on most platforms one that was set before the machine slept fires late by the
// time slept. So a deadline must be compared with [Clock.Now] wherever it matters, and a timer is only a second means.
//
// Steps of the wall clock change nothing. The rate may be off by what quartz and the kernel's time discipline allow; the
// drift bound of a session's config covers both.
//
// In a bubble of testing/synctest the clock follows the bubble's fake time exactly. [New] finds out where it runs.
package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Instant is a reading of a [Clock]: nanoseconds since an origin that is arbitrary but the same for all clocks of a
// process (of a bubble, for clocks made in it), the time asleep included. It says nothing about the wall clock.
type Instant int64

// never is later than every reading of a clock that works.
const never Instant = math.MaxInt64

// Add returns the instant d after i. Results beyond the range stick at its ends, so that no sum wraps around.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	switch {
	case d > 0 && sum < i:
		return math.MaxInt64
	case d < 0 && sum > i:
		return math.MinInt64
	}
	return sum
}

// Sub returns the time from j to i, negative if i is before j. Results beyond the range stick at its ends.
func (i Instant) Sub(j Instant) time.Duration {
	diff := i - j
	switch {
	case i > j && diff < 0:
		return math.MaxInt64
	case i < j && diff > 0:
		return math.MinInt64
	}
	return time.Duration(diff)
}

// Before reports whether i is earlier than j.
func (i Instant) Before(j Instant) bool { return i < j }

// After reports whether i is later than j.
func (i Instant) After(j Instant) bool { return i > j }

// Clock reads instants. Make one with [New]. Its source never changes, and it is safe for concurrent use.
type Clock struct {
	source source
	counts bool // the readings include the time asleep

	// asleep is the time in nanoseconds that tests pretend to have slept. It only grows, so adding it to a source
	// that never goes back leaves the sum monotone, whichever of the two is read first.
	asleep atomic.Int64
}

// source is one clock of the platform. False means that it cannot be read.
type source func() (Instant, bool)

// New makes a clock for the place where it is called: in a bubble of testing/synctest one that follows the bubble's
// time, elsewhere one that reads the best source of the platform. A clock made in a bubble is for the goroutines of
// that bubble only.
func New() *Clock { return newClock(inBubble(), readSuspendClock) }

func newClock(bubble bool, suspendClock source) *Clock {
	if bubble {
		return &Clock{source: readGoTime, counts: true} // no sleep there but what Suspend pretends
	}
	if _, ok := suspendClock(); ok {
		return &Clock{source: suspendClock, counts: true}
	}
	return &Clock{source: readGoTime, counts: goTimeCountsSuspend}
}

// Now reads the clock. The readings of one clock never go back, in whichever goroutine they are taken: a reading that
// happens after another one is not before it. It costs one clock read and allocates nothing.
func (c *Clock) Now() Instant {
	now, ok := c.source()
	if !ok {
		// It has answered before, so that should not happen (a system call filter set up since could do it). An
		// unknown time must not keep a belief alive, so everything with an expiry is to find itself expired.
		return never
	}
	return now.Add(time.Duration(c.asleep.Load()))
}

// CountsSuspend reports whether the readings include the time that the machine slept. If they do not, a holder on a
// machine that sleeps can believe in its grants for too long, and only the fencing token protects the resource.
func (c *Clock) CountsSuspend() bool { return c.counts }

// Suspend is for tests: the clock pretends that the machine slept for d. All readings jump ahead by d and timers do not,
// as on a machine that wakes. A d below zero is ignored: no clock goes back.
func (c *Clock) Suspend(d time.Duration) {
	if d > 0 {
		c.asleep.Add(int64(d))
	}
}

// base is the origin of Go's monotonic time here. A package variable is initialized outside of every bubble.
var base = time.Now()

// readGoTime reads the clock of the time package: outside of a bubble a monotonic one, in a bubble the fake one. There the
// reading is the fake wall time less base's real wall time: decades below zero, and exact.
func readGoTime() (Instant, bool) { return Instant(time.Since(base)), true }
