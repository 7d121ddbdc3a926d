// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"math"
	"time"

	"example.com/leasehold/internal/clock"
)

// The arithmetic of a term: pure values, no clock, no lock, no I/O.
//
// The textbook lease splits the allowance for drift: the grantor waits d(1+rho)+eps, the holder acts for d(1-rho)-eps.
// etcd's grantor waits exactly d of its own clock, counted from when the request reached it, so the holder takes
// both halves:
//
//	expiry = t0 + d*(1-rho)/(1+rho) - eps
//
// t0 is the send instant, before the request can have reached anybody (R1). A grantor whose clock is fast by rho
// counts d in d/(1+rho) of true time; a holder whose clock is slow by rho sees only (1-rho) of that. The holder's expiry is
// therefore earlier than the grantor's by at least eps, whatever the network did.

// allowance is what the holder leaves unused of every term.
type allowance struct {
	drift  float64       // rho, the bound on the rate error of each of the two clocks
	margin time.Duration // eps
}

// expiry is the instant after which the holder must not act on a term of length granted whose request was sent at
// sent. It rounds towards earlier.
func (a allowance) expiry(sent clock.Instant, granted time.Duration) clock.Instant {
	held := math.Floor(float64(granted) * (1 - a.drift) / (1 + a.drift))
	return sent.Add(time.Duration(held) - a.margin)
}

// held is how long the holder acts on a term: from the send to the expiry.
func (a allowance) held(granted time.Duration) time.Duration {
	return a.expiry(0, granted).Sub(0)
}

// renewAfter is how long after a send the next renewal goes out: a third of the term, or half of what the holder makes of
// it if its allowances are large, shortened by up to a tenth so that the sends of many sessions spread (R12). jitter is in [0, 1).
func (a allowance) renewAfter(granted time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(min(granted/3, a.held(granted)/2)) * (1 - jitter/10))
}

// patience is how long an unanswered renewal is waited for before it is repeated elsewhere: a few round trips, but
// between a sixth and three eighths of what is left of the term when a renewal goes out. That leaves two to six more tries
// before the expiry (R12).
func (a allowance) patience(granted, roundTrip time.Duration) time.Duration {
	window := a.held(granted) - a.renewAfter(granted, 0)
	return min(max(4*roundTrip, window/6), 3*window/8)
}

// smoothed is the moving average of round trips; the first sample counts in full.
func smoothed(average, sample time.Duration) time.Duration {
	if average == 0 {
		return sample
	}
	return average + (sample-average)/8
}
