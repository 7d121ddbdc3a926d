// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"example.com/leasehold/internal/clock"
)

func TestExpiry_OfKnownTerms(t *testing.T) {
	const start = clock.Instant(1_000_000_000)
	for _, tc := range []struct {
		name    string
		allow   allowance
		granted time.Duration
		want    time.Duration // after start
	}{
		// 15 s * 0.999/1.001 = 14.970029970029... s
		{"defaults", allowance{1e-3, 100 * time.Millisecond}, 15 * time.Second, 14_870_029_970},
		{"smallest", allowance{minDriftBound, 1}, time.Second, 999_997_999},
		{"largest drift", allowance{maxDriftBound, time.Second}, 11 * time.Second, 8 * time.Second},
		{"half of it margin", allowance{1e-3, 500 * time.Millisecond}, time.Second, 498_001_998},
		{"five minutes", allowance{1e-3, 100 * time.Millisecond}, 5 * time.Minute, 299_300_599_400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.allow.expiry(start, tc.granted).Sub(start)
			if d := got - tc.want; d < -1 || d > 0 { // a whole number of nanoseconds may come out one less
				t.Errorf("expiry %d ns after the send, want %d", got, tc.want)
			}
		})
	}
}

// The whole range of Config, in steps and at random: the expiry is never later than the formula says, to the
// nanosecond, and less than two earlier.
func TestExpiry_IsExactAndRoundsTowardsEarlier(t *testing.T) {
	forEachTerm(t, func(t *testing.T, a allowance, granted time.Duration) {
		const start = clock.Instant(-1 << 40)
		got := int64(a.expiry(start, granted).Sub(start))
		exact := heldExactly(a, granted)
		// What float64 can be wrong by at five minutes, in nanoseconds; far below the smallest margin.
		noise := big.NewRat(1, 1000)
		if new(big.Rat).SetInt64(got).Cmp(new(big.Rat).Add(exact, noise)) > 0 {
			t.Fatalf("%+v, d=%v: expiry after %d ns, later than %s", a, granted, got, exact.FloatString(4))
		}
		if new(big.Rat).SetInt64(got+2).Cmp(exact) <= 0 {
			t.Fatalf("%+v, d=%v: expiry after %d ns, much earlier than %s", a, granted, got, exact.FloatString(4))
		}
	})
}

// The reason for the formula: whatever the two clocks do within the bound, and however long the request was on its way, the
// holder has stopped, in true time, before the grantor's term ends.
func TestExpiry_LiesBeforeTheGrantorsWithinTheDriftBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	forEachTerm(t, func(t *testing.T, a allowance, granted time.Duration) {
		held := new(big.Rat).SetInt64(int64(a.expiry(0, granted)))
		for i := range 8 {
			holder, grantor := 1-a.drift, 1+a.drift // the worst: a slow holder, a fast grantor
			if i > 0 {
				holder = 1 + a.drift*(2*rng.Float64()-1)
				grantor = 1 + a.drift*(2*rng.Float64()-1)
			}
			// Both count from the send: the grantor's term begins later, so this is its earliest end.
			ours := new(big.Rat).Quo(held, rat(holder))
			theirs := new(big.Rat).Quo(rat(float64(granted)), rat(grantor))
			if ours.Cmp(theirs) >= 0 {
				t.Fatalf("%+v, d=%v, holder's rate %v, grantor's %v: the holder stops at %s ns, the grantor at %s ns",
					a, granted, holder, grantor, ours.FloatString(3), theirs.FloatString(3))
			}
		}
	})
}

// The bound is needed: just beyond it, by what the margin is worth, the holder outlives its term.
func TestExpiry_DoesNotCoverMoreThanTheBound(t *testing.T) {
	a := allowance{1e-3, time.Millisecond}
	const d = 15 * time.Second
	held := float64(a.expiry(0, d))
	if ours, theirs := held/(1-1.1e-3), float64(d)/(1+1.1e-3); ours < theirs {
		t.Errorf("rates 10%% beyond the bound: the holder stops at %.0f ns, before the grantor at %.0f ns", ours, theirs)
	}
}

func TestExpiry_OfASendAtTheEndsOfTimeDoesNotWrapAround(t *testing.T) {
	a := allowance{defaultDriftBound, defaultMargin}
	if got := a.expiry(math.MaxInt64-1, defaultTTL); got != math.MaxInt64 {
		t.Errorf("expiry = %d, want the last instant", got)
	}
	if got := (allowance{defaultDriftBound, time.Second}).expiry(math.MinInt64, time.Millisecond); got != math.MinInt64 {
		t.Errorf("expiry = %d, want the first instant", got)
	}
}

func TestRenewAfter_IsATenthBelowAThirdAtMost(t *testing.T) {
	for _, d := range []time.Duration{time.Second, 2 * time.Second, defaultTTL, maxTTL} {
		a := allowance{defaultDriftBound, defaultMargin}
		for _, jitter := range []float64{0, 0.1, 0.5, 0.999999} {
			got := a.renewAfter(d, jitter)
			if got > d/3 || got < d*3/10 {
				t.Errorf("renewAfter(%v, %v) = %v, want %v to %v", d, jitter, got, d*3/10, d/3)
			}
		}
		if a.renewAfter(d, 0) == a.renewAfter(d, 0.5) {
			t.Errorf("renewAfter(%v) does not spread", d)
		}
	}
}

// Large allowances shorten what the holder makes of a term. Whatever they are, the first renewal goes out well before the expiry, and
// if it is not answered it is repeated at least twice before it, however slow the path seems.
func TestPatience_LeavesSeveralTriesBeforeTheExpiry(t *testing.T) {
	forEachTerm(t, func(t *testing.T, a allowance, d time.Duration) {
		first, expiry := a.renewAfter(d, 0), a.expiry(0, d)
		if first <= 0 || clock.Instant(0).Add(2*first).After(expiry.Add(2)) {
			t.Fatalf("%+v, d=%v: first renewal after %v, expiry after %v", a, d, first, expiry.Sub(0))
		}
		for _, trip := range []time.Duration{0, time.Microsecond, d / 100, d / 20, d / 4, d, 10 * d} {
			p := a.patience(d, trip)
			tries := 0
			for at := clock.Instant(0).Add(first + p); at.Before(expiry); at = at.Add(p) {
				tries++
			}
			if tries < 2 || tries > 6 {
				t.Fatalf("%+v, d=%v, trip=%v: patience %v leaves %d more tries before the expiry, want 2 to 6", a, d, trip, p, tries)
			}
			// A path that answers in time is not left for another.
			if left := expiry.Sub(clock.Instant(0).Add(first)); 4*trip < left/3 && p < 4*trip {
				t.Fatalf("%+v, d=%v: patience %v with a usual trip of %v", a, d, p, trip)
			}
		}
	})
}

func TestSmoothed_StartsAtTheFirstSampleAndFollowsTheRest(t *testing.T) {
	avg := smoothed(0, 80*time.Millisecond)
	if avg != 80*time.Millisecond {
		t.Fatalf("first sample: %v", avg)
	}
	if got := smoothed(avg, 0); got != 70*time.Millisecond {
		t.Errorf("after a sample of zero: %v, want 70ms", got)
	}
	for range 100 {
		avg = smoothed(avg, 8*time.Millisecond)
	}
	if avg < 8*time.Millisecond || avg > 9*time.Millisecond {
		t.Errorf("after a hundred samples of 8ms: %v", avg)
	}
}

// forEachTerm goes through the bounds of Config and through its inside at random.
func forEachTerm(t *testing.T, f func(t *testing.T, a allowance, granted time.Duration)) {
	ttls := []time.Duration{minTTL, 2 * time.Second, 3 * time.Second, 7 * time.Second, defaultTTL, 299 * time.Second, maxTTL}
	drifts := []float64{minDriftBound, 1e-5, 1e-4, 5e-4, defaultDriftBound, 1e-2, 0.05, maxDriftBound}
	margins := []time.Duration{1, 2, time.Microsecond, time.Millisecond, defaultMargin, 500 * time.Millisecond}
	for _, d := range ttls {
		for _, rho := range drifts {
			for _, eps := range append(margins, d/2) {
				f(t, allowance{rho, eps}, d)
			}
		}
	}
	const seed = 42
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 5_000 {
		d := time.Duration(1+rng.IntN(300)) * time.Second
		rho := math.Exp(math.Log(minDriftBound) + rng.Float64()*(math.Log(maxDriftBound)-math.Log(minDriftBound)))
		f(t, allowance{rho, 1 + time.Duration(rng.Int64N(int64(d/2)))}, d)
	}
}

// heldExactly is d*(1-rho)/(1+rho) - eps in nanoseconds.
func heldExactly(a allowance, granted time.Duration) *big.Rat {
	one := big.NewRat(1, 1)
	x := rat(float64(granted))
	x.Mul(x, new(big.Rat).Sub(one, rat(a.drift)))
	x.Quo(x, new(big.Rat).Add(one, rat(a.drift)))
	return x.Sub(x, rat(float64(a.margin)))
}

func rat(f float64) *big.Rat {
	r := new(big.Rat).SetFloat64(f)
	if r == nil {
		panic(fmt.Sprintf("%v is not a number", f))
	}
	return r
}
