// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"math"
	"time"
)

// clock is a member's own: it runs at a rate and can stand still. Guarded by the cluster's mutex.
type clock struct {
	since   time.Time     // true time at which it showed reading
	reading time.Duration // arbitrary origin
	rate    float64
	stopped bool
}

func newClock() clock { return clock{since: time.Now(), rate: 1} }

func (k *clock) now() time.Duration {
	if k.stopped {
		return k.reading
	}
	passed := time.Since(k.since)
	if k.rate != 1 {
		passed = time.Duration(float64(passed) * k.rate)
	}
	return k.reading + passed
}

// change moves the origin to now, so that what follows holds from now on only.
func (k *clock) change(rate float64, stopped bool) {
	k.reading = k.now()
	k.since, k.rate, k.stopped = time.Now(), rate, stopped
}

// leap shows a later time at once.
func (k *clock) leap(d time.Duration) {
	k.change(k.rate, k.stopped)
	k.reading += d
}

// when returns the true time at which the clock shows at least d; false if it stands still before that.
func (k *clock) when(d time.Duration) (time.Time, bool) {
	left := d - k.reading
	if left <= 0 {
		return k.since, true
	}
	if k.stopped {
		return time.Time{}, false
	}
	if k.rate != 1 {
		left = time.Duration(math.Ceil(float64(left)/k.rate)) + 1
	}
	return k.since.Add(left), true
}
