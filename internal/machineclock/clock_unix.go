// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package machineclock

import "golang.org/x/sys/unix"

func read() (Instant, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockID, &ts); err != nil {
		return 0, false
	}
	return Instant(ts.Nano()), true
}
