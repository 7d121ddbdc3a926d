// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// instant is a reading of the machine's clock in nanoseconds, the same for all processes.
type instant int64

// now reads CLOCK_MONOTONIC. The clock exists: check does it once at the start.
func now() instant {
	t, _ := readClock()
	return t
}

func readClock() (instant, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return instant(ts.Nano()), nil
}
