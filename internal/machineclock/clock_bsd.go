// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package machineclock

import "golang.org/x/sys/unix"

// macOS counts sleep in this clock; on the BSDs that depends on the release.
const clockID = unix.CLOCK_MONOTONIC
