// SPDX-License-Identifier: Apache-2.0

package clock

import "golang.org/x/sys/unix"

// Go's monotonic time is mach_absolute_time, which stops while the machine sleeps.
const (
	goTimeID            = unix.CLOCK_UPTIME_RAW
	goTimeCountsSuspend = false
)

// readSuspendClock reads mach_continuous_time, which goes on during sleep. The system calls it CLOCK_MONOTONIC_RAW; its
// CLOCK_MONOTONIC goes on as well, but is derived from the wall clock, in microseconds.
func readSuspendClock() (Instant, bool) { return read(unix.CLOCK_MONOTONIC_RAW) }

func read(id int32) (Instant, bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(id, &ts)
	return Instant(ts.Nano()), err == nil
}
