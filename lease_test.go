// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/leasehold/internal/clock"
)

// newTestLease makes a lease granted just now, without drift, so that its expiry is a millisecond before its term ends.
func newTestLease(clk *clock.Clock, term time.Duration) *lease {
	l := &lease{id: 7, granted: term, allow: allowance{drift: 0, margin: time.Millisecond}, clk: clk}
	l.expiry.Store(int64(l.allow.expiry(clk.Now(), term)))
	return l
}

func (l *lease) isLive() bool {
	live, _ := l.live()
	return live
}

// R4: the check compares the clock, to the nanosecond, with no timer in between.
func TestLease_IsLiveUntilItsExpiryAndNotAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLease(clock.New(), time.Minute)
		time.Sleep(time.Minute - time.Millisecond - 1)
		if live, ended := l.live(); !live || ended || l.remaining() != 1 {
			t.Fatalf("a nanosecond before the expiry: live %v, ended %v, remaining %v", live, ended, l.remaining())
		}
		time.Sleep(time.Nanosecond)
		if l.remaining() != 0 || l.ended() {
			t.Errorf("at the expiry: remaining %v, ended %v before anybody has looked", l.remaining(), l.ended())
		}
		if live, ended := l.live(); live || !ended {
			t.Errorf("at the expiry: live %v, ended %v", live, ended)
		}
		if live, ended := l.live(); live || ended {
			t.Errorf("asked again: live %v, ended %v, want the end told once", live, ended)
		}
		if !errors.Is(l.reason(), ErrExpired) || !l.ended() {
			t.Errorf("reason %v, ended %v", l.reason(), l.ended())
		}
	})
}

// R2: the expiry only moves forward, only while it has not passed, and counts from the send.
func TestLease_ExtendsOnlyForwardAndOnlyInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clock.New()
		l := newTestLease(clk, time.Minute)
		sent := clk.Now()
		time.Sleep(30 * time.Second)
		for _, tc := range []struct {
			name  string
			after time.Duration // of the send, after the grant's
			term  time.Duration
			left  time.Duration
		}{
			{"an older send", -10 * time.Second, time.Minute, 30*time.Second - time.Millisecond},
			{"the same send", 0, time.Minute, 30*time.Second - time.Millisecond},
			{"a shorter term", 30 * time.Second, 29 * time.Second, 30*time.Second - time.Millisecond},
			{"a nanosecond more", 1, time.Minute, 30*time.Second - time.Millisecond + 1},
			{"a longer term", 0, 2 * time.Minute, 90*time.Second - time.Millisecond},
			{"a newer send, less far", 30 * time.Second, time.Minute, 90*time.Second - time.Millisecond},
		} {
			if !l.extend(sent.Add(tc.after), tc.term) {
				t.Fatalf("%s: not alive", tc.name)
			}
			if got := l.remaining(); got != tc.left {
				t.Errorf("%s: %v left, want %v", tc.name, got, tc.left)
			}
		}
		time.Sleep(90*time.Second - time.Millisecond)
		if l.extend(clk.Now(), time.Hour) {
			t.Error("extended at its expiry")
		}
		if l.isLive() || l.remaining() != 0 || !errors.Is(l.reason(), ErrExpired) {
			t.Errorf("after that: live %v, remaining %v, reason %v", l.isLive(), l.remaining(), l.reason())
		}
	})
}

// R3: one end, one reason; and the reason is the expiry if that was first, although nobody had looked.
func TestLease_EndsOnceForOneReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := clock.New()
		l := newTestLease(clk, time.Minute)
		if !l.end(ErrRevoked) || l.end(ErrClosed) || !errors.Is(l.reason(), ErrRevoked) {
			t.Errorf("reason %v", l.reason())
		}
		if l.extend(clk.Now(), time.Minute) || l.isLive() || l.remaining() != 0 {
			t.Error("revived")
		}
		l = newTestLease(clk, time.Minute)
		time.Sleep(time.Minute)
		if !l.end(ErrClosed) || !errors.Is(l.reason(), ErrExpired) {
			t.Errorf("ended after its expiry with the reason %v, want ErrExpired", l.reason())
		}
	})
}

// Property: against a model, in any order of steps. Once ended, nothing revives it; while live, it ends exactly at the
// latest expiry that an answer in time has allowed.
func TestLease_IsNeverRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 3
		rng := rand.New(rand.NewPCG(seed, 0))
		for round := range 2000 {
			clk := clock.New()
			l := newTestLease(clk, 100)
			l.allow.margin = 1
			expiry := l.allow.expiry(clk.Now(), 100)
			l.expiry.Store(int64(expiry))
			ended := false
			for step := range 30 {
				now := clk.Now()
				switch rng.IntN(6) {
				case 0:
					time.Sleep(time.Duration(rng.IntN(80)))
					continue
				case 1:
					clk.Suspend(time.Duration(rng.IntN(40)))
					continue
				case 2:
					sent, term := now.Add(-time.Duration(rng.IntN(120))), time.Duration(rng.IntN(150))
					if got, want := l.extend(sent, term), !ended && now < expiry; got != want {
						t.Fatalf("seed %d, round %d, step %d: extend = %v at %d with the expiry at %d", seed, round, step, got, now, expiry)
					} else if want {
						expiry = max(expiry, l.allow.expiry(sent, term))
					} else {
						ended = true
					}
				case 3:
					if rng.IntN(4) == 0 {
						l.end(ErrRevoked)
						ended = true
					}
				case 4:
					if got, want := l.isLive(), !ended && now < expiry; got != want {
						t.Fatalf("seed %d, round %d, step %d: live = %v at %d with the expiry at %d", seed, round, step, got, now, expiry)
					} else if !want {
						ended = true
					}
				case 5:
					want := time.Duration(0)
					if !ended {
						want = max(0, expiry.Sub(now))
					}
					if got := l.remaining(); got != want {
						t.Fatalf("seed %d, round %d, step %d: remaining = %v, want %v", seed, round, step, got, want)
					}
				}
			}
		}
	})
}

// Races at the very expiry: renewals whose answers come in as it passes, checks and ends. Whoever has once heard "no" hears
// it for ever, and the end is told to exactly one.
func TestLease_ChecksAndAnswersRaceTheExpiry(t *testing.T) {
	clk := clock.New()
	for range 300 {
		l := newTestLease(clk, 200*time.Microsecond)
		l.allow.margin = 1
		l.expiry.Store(int64(l.allow.expiry(clk.Now(), 200*time.Microsecond)))
		var dead atomic.Bool // somebody has heard "no"
		var told atomic.Int32
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for range 1000 {
					before := dead.Load()
					live, ended := l.live()
					if live && before {
						t.Error("live after it was not")
						return
					}
					if ended {
						told.Add(1)
					}
					if !live {
						dead.Store(true)
						return
					}
				}
			})
		}
		wg.Go(func() { // the only one that extends, so it knows the expiry
			known := clock.Instant(l.expiry.Load())
			for {
				before, sent := dead.Load(), clk.Now()
				runtime.Gosched()
				late := !clk.Now().Before(known)
				alive := l.extend(sent, 50*time.Microsecond)
				if alive && (before || late) {
					t.Errorf("extended after the end: heard so %v, expired %v", before, late)
					return
				}
				if !alive {
					dead.Store(true)
					return
				}
				known = max(known, l.allow.expiry(sent, 50*time.Microsecond))
			}
		})
		wg.Go(func() {
			for l.remaining() > 100*time.Microsecond {
				runtime.Gosched()
			}
			if l.end(ErrRevoked) {
				told.Add(1)
			}
			dead.Store(true)
		})
		wg.Wait()
		if l.isLive() || l.reason() == nil || told.Load() > 1 {
			t.Fatalf("afterwards: reason %v, told %d times", l.reason(), told.Load())
		}
	}
}

// The check is made before every write of a holder, so its cost counts.
func TestLease_ChecksAllocateNothing(t *testing.T) {
	l := newTestLease(clock.New(), time.Hour)
	if n := testing.AllocsPerRun(1000, func() {
		if !l.isLive() || l.remaining() == 0 {
			t.Error("not live")
		}
	}); n != 0 {
		t.Errorf("%v allocations a check", n)
	}
}
