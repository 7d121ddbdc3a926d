// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestInstant_ArithmeticSticksAtTheEndsOfTheRange(t *testing.T) {
	const top, bottom = Instant(math.MaxInt64), Instant(math.MinInt64)
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"add", int64(Instant(40).Add(2)), 42},
		{"add negative", int64(Instant(40).Add(-42)), -2},
		{"add beyond the top", int64((top - 1).Add(2)), math.MaxInt64},
		{"add to the top", int64((top - 1).Add(1)), math.MaxInt64},
		{"add beyond the bottom", int64((bottom + 1).Add(-2)), math.MinInt64},
		{"add nothing at the bottom", int64(bottom.Add(0)), math.MinInt64},
		{"sub", int64(Instant(42).Sub(40)), 2},
		{"sub a later one", int64(Instant(40).Sub(42)), -2},
		{"sub itself", int64(top.Sub(top)), 0},
		{"sub beyond the top", int64(top.Sub(-1)), math.MaxInt64},
		{"sub beyond the bottom", int64(bottom.Sub(1)), math.MinInt64},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

func TestInstant_BeforeAndAfterAreStrict(t *testing.T) {
	early, late := Instant(1), Instant(2)
	if !early.Before(late) || late.Before(early) || early.Before(early) {
		t.Error("Before is not the strict order")
	}
	if !late.After(early) || early.After(late) || late.After(late) {
		t.Error("After is not the strict order")
	}
}

// Readers on several goroutines publish what they read, and each checks that what it reads next is not before what any
// of them has published. The clock jumps meanwhile.
func TestClock_NeverGoesBackAcrossGoroutines(t *testing.T) {
	for name, c := range map[string]*Clock{
		"platform":            New(),
		"without own reading": newClock(false, func() (Instant, bool) { return 0, false }),
	} {
		t.Run(name, func(t *testing.T) {
			var latest atomic.Int64
			latest.Store(int64(c.Now()))
			var readers sync.WaitGroup
			for range 4 {
				readers.Go(func() {
					for range 10_000 {
						seen := latest.Load()
						now := int64(c.Now())
						if now < seen {
							t.Errorf("read %d after another goroutine had read %d", now, seen)
							return
						}
						for !latest.CompareAndSwap(seen, max(seen, now)) {
							seen = latest.Load()
						}
					}
				})
			}
			readers.Go(func() {
				for range 1000 {
					c.Suspend(time.Millisecond)
				}
			})
			readers.Wait()
		})
	}
}

func TestClock_AgreesWithGoTimeWhileAwake(t *testing.T) {
	// The clocks may differ by a tick of the coarsest of them (Windows), not by a rate or a unit.
	const tolerance = 20 * time.Millisecond
	c := New()
	outer := time.Now()
	start := c.Now()
	inner := time.Now()
	for time.Since(inner) < 3*tolerance {
	}
	atLeast := time.Since(inner)
	got := c.Now().Sub(start)
	atMost := time.Since(outer)
	if got < atLeast-tolerance || got > atMost+tolerance {
		t.Errorf("the clock went on by %v while Go's time did by %v to %v", got, atLeast, atMost)
	}
}

func TestClock_AllClocksShareOneOrigin(t *testing.T) {
	check := func(t *testing.T) {
		a, b := New(), New()
		first, second, third := a.Now(), b.Now(), a.Now()
		if second.Before(first) || third.Before(second) {
			t.Errorf("readings in turn of two clocks: %d, %d, %d; want them in order", first, second, third)
		}
	}
	check(t)
	synctest.Test(t, check)
}

func TestClock_FollowsABubbleExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		start := c.Now()
		for _, d := range []time.Duration{0, 1, time.Second, 3*time.Hour + 1} {
			before := c.Now()
			time.Sleep(d)
			if got := c.Now().Sub(before); got != d {
				t.Errorf("the clock went on by %v in %v of the bubble", got, d)
			}
		}
		// Far enough to pass the moment at which the process started.
		const decades = 60 * 365 * 24 * time.Hour
		time.Sleep(decades)
		if got, want := c.Now().Sub(start), decades+3*time.Hour+time.Second+2; got != want {
			t.Errorf("the clock went on by %v, want %v", got, want)
		}
		if !c.CountsSuspend() {
			t.Error("CountsSuspend is false in a bubble")
		}
	})
}

func TestClock_SuspendMovesReadingsButNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New()
		start := c.Now()
		timer := time.NewTimer(10 * time.Second)
		c.Suspend(time.Hour)
		if got := c.Now().Sub(start); got != time.Hour {
			t.Errorf("the clock went on by %v, want 1h", got)
		}
		<-timer.C
		if got, want := c.Now().Sub(start), time.Hour+10*time.Second; got != want {
			t.Errorf("when the timer fired, the clock had gone on by %v, want %v", got, want)
		}
		c.Suspend(time.Hour)
		c.Suspend(-time.Minute)
		if got, want := c.Now().Sub(start), 2*time.Hour+10*time.Second; got != want {
			t.Errorf("after two naps and a negative one, the clock had gone on by %v, want %v", got, want)
		}
	})
}

func TestClock_SuspendMovesARealClock(t *testing.T) {
	c := New()
	start := c.Now()
	c.Suspend(1000 * time.Hour)
	if got := c.Now().Sub(start); got < 1000*time.Hour || got > 1001*time.Hour {
		t.Errorf("the clock went on by %v, want 1000h", got)
	}
}

func TestClock_WithoutASuspendClockSaysSo(t *testing.T) {
	c := newClock(false, func() (Instant, bool) { return 0, false })
	if c.CountsSuspend() != goTimeCountsSuspend {
		t.Errorf("CountsSuspend = %v on Go's time, want %v", c.CountsSuspend(), goTimeCountsSuspend)
	}
	if first, second := c.Now(), c.Now(); second.Before(first) || first == 0 {
		t.Errorf("readings %d and %d: want Go's time", first, second)
	}
}

// A source that fails later on must not leave an expiry in the future.
func TestClock_AFailingSourceExpiresEverything(t *testing.T) {
	works := true
	c := newClock(false, func() (Instant, bool) { return 1000, works })
	if got := c.Now(); got != 1000 {
		t.Fatalf("Now = %d, want the source's 1000", got)
	}
	c.Suspend(time.Hour)
	works = false
	now := c.Now()
	if expiry := Instant(1000).Add(100 * 365 * 24 * time.Hour); now.Before(expiry) {
		t.Errorf("Now = %d with a source that fails, before an expiry at %d", now, expiry)
	}
	if expiry := now.Add(time.Minute); now.Before(expiry) {
		t.Errorf("Now = %d with a source that fails, before an expiry %d computed from it", now, expiry)
	}
}

func TestClock_NowAllocatesNothing(t *testing.T) {
	c := New()
	if n := testing.AllocsPerRun(1000, func() { c.Now() }); n != 0 {
		t.Errorf("Now makes %v allocations, want none", n)
	}
}

func BenchmarkNow(b *testing.B) {
	c := New()
	b.ReportAllocs()
	for b.Loop() {
		c.Now()
	}
}

// The alternative without a system call, which does not count suspend.
func BenchmarkGoTime(b *testing.B) {
	start := time.Now()
	for b.Loop() {
		_ = time.Since(start)
	}
}
