// SPDX-License-Identifier: Apache-2.0

package machineclock

import "golang.org/x/sys/windows"

// The tick count goes on during sleep; its steps of 10 to 16 ms are fine enough for what is measured here.
func read() (Instant, bool) { return Instant(windows.DurationSinceBoot()), true }
