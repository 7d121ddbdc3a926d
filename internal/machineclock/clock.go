// SPDX-License-Identifier: Apache-2.0

// Package machineclock reads the one clock of this machine that all its processes share: time since boot, suspend
// included where the system offers that (Linux, macOS, Windows), untouched by steps of the wall clock. Readings of
// different processes can be compared, which [time.Time] does not allow: its monotonic part is private to a process.
package machineclock

import "time"

// Instant is a reading of the machine's clock in nanoseconds since an epoch that all processes of one boot share.
// The zero Instant stands for "none": no process runs at the epoch.
type Instant int64

// Sub returns i−o.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

// Add returns i+d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Now reads the clock. It does not fail: where the system call is refused it falls back to the wall clock, which is
// shared between processes as well.
func Now() Instant {
	if i, ok := read(); ok {
		return i
	}
	return Instant(time.Now().UnixNano())
}
