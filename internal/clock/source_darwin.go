// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Go's monotonic time is mach_absolute_time, which stops while the machine sleeps.
const goTimeCountsSuspend = false

// uptimeBase is the system's reading of Go's clock at the time of base.
var uptimeBase, uptimeWorks = rawRead(unix.CLOCK_UPTIME_RAW)

// farOff is far more than two readings of one clock differ by, and far less than a bubble's year 2000 and today do.
const farOff = 24 * time.Hour

// inBubble reports whether the caller runs in a bubble of testing/synctest, as on Linux: by Go's time being another
// than the clock which it reads elsewhere, CLOCK_UPTIME_RAW.
func inBubble() bool {
	now, ok := rawRead(unix.CLOCK_UPTIME_RAW)
	if !ok || !uptimeWorks || base == base.Round(0) {
		return false
	}
	return (time.Since(base) - now.Sub(uptimeBase)).Abs() > farOff
}

func rawWorks() bool {
	_, ok := rawNow()
	return ok
}

// rawNow reads mach_continuous_time, which goes on during sleep. It is CLOCK_MONOTONIC_RAW here; CLOCK_MONOTONIC counts
// the sleep as well, but the system derives it from the wall clock, in microseconds.
func rawNow() (Instant, bool) { return rawRead(unix.CLOCK_MONOTONIC_RAW) }

func rawRead(id int32) (Instant, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, false
	}
	return Instant(ts.Nano()), true
}
