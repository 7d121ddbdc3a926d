// SPDX-License-Identifier: Apache-2.0

//go:build !linux && !darwin

package clock

import "runtime"

// Go's monotonic time is the interrupt time on Windows (KUSER_SHARED_DATA), which counts sleep and hibernation; the
// "unbiased" one, which does not, is another. On the remaining platforms it is whatever their CLOCK_MONOTONIC is.
const goTimeCountsSuspend = runtime.GOOS == "windows"

func readSuspendClock() (Instant, bool) { return 0, false }

// inBubble has nothing to find out: Go's time is read in a bubble and elsewhere.
func inBubble() bool { return false }
