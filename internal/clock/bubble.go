// SPDX-License-Identifier: Apache-2.0

//go:build linux || darwin

package clock

import "time"

// systemBase is the system's reading of the clock behind Go's monotonic time, when base was taken.
var systemBase, systemBaseOK = read(goTimeID)

// inBubble reports whether the caller runs in a bubble of testing/synctest. There Go's time is fake, and what the system
// says is not; elsewhere both read one clock.
//
// A real clock must never be taken for a bubble's, because then the time asleep would not count. Nothing that happens to the
// wall clock can do that: outside of a bubble time.Since looks only at the monotonic reading which base has. A base
// without one (a wall clock beyond the years 1885 to 2157) leaves the question unasked. The other way round, a bubble
// is missed only if its fake time, which starts in the year 2000, has come within a day of the real time.
func inBubble() bool {
	const farOff = 24 * time.Hour
	now, ok := read(goTimeID)
	if !ok || !systemBaseOK || base == base.Round(0) {
		return false
	}
	return (time.Since(base) - now.Sub(systemBase)).Abs() > farOff
}
