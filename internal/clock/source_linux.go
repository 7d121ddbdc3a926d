// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's monotonic time is CLOCK_MONOTONIC, which stops while the machine sleeps.
const (
	goTimeID            = unix.CLOCK_MONOTONIC
	goTimeCountsSuspend = false
)

// readSuspendClock reads CLOCK_BOOTTIME: CLOCK_MONOTONIC and the time asleep, since Linux 2.6.39.
func readSuspendClock() (Instant, bool) { return read(unix.CLOCK_BOOTTIME) }

// read is one system call, without telling the scheduler: it does not block. The kernel's vDSO would save most of its
// cost, but Go goes through it for the two clocks of time.Now only and offers no way to it for others.
func read(id int32) (Instant, bool) {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&ts)), 0)
	return Instant(ts.Nano()), errno == 0
}
