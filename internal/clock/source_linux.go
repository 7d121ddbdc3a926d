// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"syscall"
	"time"
	"unsafe"
)

// The clock ids of clock_gettime(2), which the syscall package does not name.
const (
	clockMonotonic = 1 // stops while the machine sleeps; what Go's time reads
	clockBoottime  = 7 // counts the sleep; since Linux 2.6.39
)

// Go's monotonic time is CLOCK_MONOTONIC.
const goTimeCountsSuspend = false

// monotonicBase is CLOCK_MONOTONIC at the time of base, or false where system calls do not get at it.
var monotonicBase, monotonicWorks = rawRead(clockMonotonic)

// farOff is far more than two readings of one clock differ by, and far less than a bubble's year 2000 and today do.
const farOff = 24 * time.Hour

// inBubble reports whether the caller runs in a bubble of testing/synctest. There Go's time is fake and a raw system call's
// is not, while elsewhere both read the same clock. Nothing that the wall clock does can make a real clock look
// like a bubble's: with base's monotonic reading, time.Since does not look at the wall clock outside of a bubble. Without
// it (a wall clock beyond the years 1885 to 2157) the question is not asked.
func inBubble() bool {
	now, ok := rawRead(clockMonotonic)
	if !ok || !monotonicWorks || base == base.Round(0) {
		return false
	}
	return (time.Since(base) - now.Sub(monotonicBase)).Abs() > farOff
}

func rawWorks() bool {
	_, ok := rawNow()
	return ok
}

func rawNow() (Instant, bool) { return rawRead(clockBoottime) }

// rawRead is one system call, without telling the scheduler: it does not block. The kernel's vDSO would save most of its
// cost, but Go uses that for its own two clocks only and offers no way to it for others.
func rawRead(id uintptr) (Instant, bool) {
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, false
	}
	return Instant(ts.Nano()), true
}
