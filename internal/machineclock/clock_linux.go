// SPDX-License-Identifier: Apache-2.0

package machineclock

import "golang.org/x/sys/unix"

// CLOCK_MONOTONIC stands still while a Linux machine sleeps; this one does not.
const clockID = unix.CLOCK_BOOTTIME
