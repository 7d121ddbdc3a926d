// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// R1: the first expiry counts from before the grant was sent, however long its answer took.
func TestSession_TheFirstExpiryCountsFromTheSendOfTheGrant(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		r.must(r.client.Sync(r.Context())) // connected, so that the grant is sent at once
		r.delay(100*time.Millisecond, 3*time.Second)
		sent := time.Now()
		s := r.open(Config{TTL: 10 * time.Second})
		if took := time.Since(sent); took < 3100*time.Millisecond {
			r.Fatalf("the grant took %v", took)
		}
		if got := r.expiryOf(s).Sub(sent); got != term(s) {
			r.Errorf("expiry %v after the send, want %v", got, term(s))
		}
		// A slow answer makes it ask again, each time for another lease. None of these is left behind.
		r.delay(0, 0)
		time.Sleep(10 * time.Second)
		if left := r.cluster.Leases(); len(left) != 1 || left[0] != s.Lease() {
			r.Errorf("leases left: %x, want %x alone", left, s.Lease())
		}
	})
}

// Scenario 25: the term counts that was granted, not the one asked for.
func TestSession_TheGrantedTermCounts(t *testing.T) {
	bubble(t, etcdfake.Options{ElectionTimeout: 4 * time.Second}, func(r *rig) {
		sent := time.Now()
		s := r.open(Config{TTL: time.Second})
		want := allowance{defaultDriftBound, defaultMargin}.expiry(0, 6*time.Second).Sub(0)
		if s.TTL() != 6*time.Second || r.expiryOf(s).Sub(sent) != want {
			r.Errorf("TTL %v, expiry %v after the send; want 6s and %v", s.TTL(), r.expiryOf(s).Sub(sent), want)
		}
	})
}

// R1: a renewal counts from its own send, not from its answer.
func TestSession_SlowRenewalDoesNotExtendExpiryBeyondItsOwnSendAndTerm(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		r.cluster.Hook(etcdfake.On("Lease/LeaseKeepAlive", etcdfake.DelayAnswer(1500*time.Millisecond)))
		for range 20 {
			before := r.expiryOf(s)
			for !r.expiryOf(s).After(before) {
				time.Sleep(10 * time.Millisecond)
				if !s.Valid() {
					r.Fatalf("lost: %v", s.Err())
				}
			}
			// Bytes to the member take no time here, so a renewal arrives when it is sent.
			if want := r.lastAnswered(s).Arrived.Add(term(s)); !r.expiryOf(s).Equal(want) {
				r.Fatalf("expiry %v after the send of the renewal and its term", r.expiryOf(s).Sub(want))
			}
		}
	})
}

// lastAnswered is the latest renewal whose answer has been on its way for 1.5 seconds.
func (r *rig) lastAnswered(s *Session) etcdfake.Renewal {
	var last etcdfake.Renewal
	for _, n := range r.renewals(s) {
		if !n.Answered.IsZero() && time.Since(n.Answered) >= 1500*time.Millisecond {
			last = n
		}
	}
	return last
}

// R1: answers that are held and delivered late, when another stream has long been opened, count from their own sends,
// in whichever order they come.
func TestSession_HeldAnswersCountFromTheirOwnSendsAcrossAReopenedStream(t *testing.T) {
	for name, order := range map[string][]int{"oldest first": {0, 1, 2}, "youngest first": {2, 1, 0}, "mixed": {1, 2, 0}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				time.Sleep(6 * time.Second) // the stream is open and has renewed once
				r.quiet()
				want := r.expiryOf(s)
				g := r.keepAnswers("Lease/LeaseKeepAlive")
				r.wait("three renewals", func() bool { return len(g.answers()) == 3 })
				sends := g.answers()
				if sends[0].call.Member == sends[1].call.Member {
					r.Errorf("repeated over the same member %d", sends[0].call.Member)
				}
				time.Sleep(time.Second)
				for _, i := range order {
					if g.letOut(i); sends[i].at.Add(term(s)).After(want) {
						want = sends[i].at.Add(term(s))
					}
					// Bytes take no time here, so a renewal is applied when it is sent.
					if got := r.expiryOf(s); !got.Equal(want) {
						r.Errorf("after answer %d: expiry %v after its send's", i, got.Sub(want))
					}
				}
			})
		})
	}
}

// R2: an answer that arrives at the expiry or after is worth nothing, although the grantor has renewed the lease and says so;
// a nanosecond earlier it counts in full.
func TestSession_AnAnswerAtOrAfterTheExpiryIsDiscarded(t *testing.T) {
	for _, tc := range []struct {
		name  string
		after time.Duration
		alive bool
	}{
		{"a nanosecond before", -1, true},
		{"at the expiry", 0, false},
		{"a nanosecond after", 1, false},
		{"while the lease is still there", 90 * time.Millisecond, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				time.Sleep(6 * time.Second)
				r.quiet()
				expiry := r.expiryOf(s)
				r.hold(false, true)
				time.Sleep(time.Until(expiry.Add(tc.after)))
				r.release(false, true)
				r.quiet()
				if s.Valid() != tc.alive {
					r.Fatalf("valid %v, want %v; %v", s.Valid(), tc.alive, s.Err())
				}
				if tc.alive && !r.expiryOf(s).After(expiry) {
					r.Error("the answer in time did not count")
				}
				if !tc.alive && !errors.Is(s.Err(), ErrExpired) {
					r.Errorf("reason %v, want ErrExpired", s.Err())
				}
				if last := r.renewals(s); last[len(last)-1].TTL != s.TTL() {
					r.Errorf("the grantor's last answer said %v, want a full term", last[len(last)-1].TTL)
				}
			})
		})
	}
}

// R3: a session that was lost is not renewed, its lease is revoked once that can be done, and nothing brings it back.
func TestSession_LostIsLost(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		other := r.open(Config{TTL: time.Minute}) // keeps the stream alive
		time.Sleep(6 * time.Second)
		r.quiet()
		r.hold(true, true)
		r.ended("the session", s.Done(), s.TTL())
		lost := time.Now()
		r.release(true, true)
		time.Sleep(time.Second)
		if left := r.cluster.Leases(); len(left) != 1 || left[0] != other.Lease() {
			r.Errorf("leases a second after the way was free: %x, want that of the other session", left)
		}
		time.Sleep(10 * time.Minute)
		for _, n := range r.renewals(s) {
			if n.Arrived.After(lost) { // what was under way before arrives at the very instant
				r.Errorf("renewed %v after the loss", n.Arrived.Sub(lost))
			}
		}
		if s.Valid() || g.Valid() || !errors.Is(context.Cause(g.Context()), ErrExpired) {
			r.Errorf("after ten minutes: valid %v, cause %v", s.Valid(), context.Cause(g.Context()))
		}
		if _, err := s.Lock(r.Context(), "b"); !errors.Is(err, ErrExpired) {
			r.Errorf("Lock on a lost session: %v", err)
		}
		if !other.Valid() {
			r.Errorf("the other session: %v", other.Err())
		}
	})
}

// R4: with nothing reachable, the context ends at the expiry to the nanosecond, with its reason.
func TestSession_ContextEndsAtTheExpiryWithEverythingBlackholed(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		time.Sleep(20 * time.Second)
		r.quiet()
		r.hold(true, true)
		want := r.expiryOf(s)
		r.ended("the grant", g.Done(), time.Minute)
		if now := time.Now(); !now.Equal(want) {
			r.Errorf("the context ended %v after the expiry", now.Sub(want))
		}
		if cause := context.Cause(g.Context()); !errors.Is(cause, ErrExpired) {
			r.Errorf("cause %v, want ErrExpired", cause)
		}
		if g.Valid() || s.Valid() || !errors.Is(g.Err(), ErrExpired) || g.Remaining() != 0 {
			r.Errorf("after it: valid %v, %v; err %v; remaining %v", g.Valid(), s.Valid(), g.Err(), g.Remaining())
		}
	})
}

// R4, the other half: Valid compares the clock by itself, at the very instant.
func TestSession_ValidEndsAtTheExpiryWithoutATimer(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		r.hold(true, true)
		time.Sleep(time.Until(r.expiryOf(s)) - 1)
		if !s.Valid() || s.Remaining() != 1 {
			r.Errorf("a nanosecond before: valid %v, remaining %v", s.Valid(), s.Remaining())
		}
		time.Sleep(time.Nanosecond)
		if s.Valid() || s.Remaining() != 0 {
			r.Errorf("at the expiry: valid %v, remaining %v", s.Valid(), s.Remaining())
		}
	})
}

// R5: a machine that slept for longer than the term finds its first check saying no, although no timer has fired; and who
// only waits is told within a second of waking.
func TestSession_AMachineThatSleptFindsItselfExpired(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		asked, waiting := r.open(Config{}), r.open(Config{})
		g := r.lock(asked, "a")
		time.Sleep(5 * time.Minute)
		r.quiet()
		asked.clk.Suspend(15 * time.Second)
		select {
		case <-g.Done():
			r.Error("a timer fired although no time has passed for it")
		default:
		}
		if g.Valid() || asked.Valid() || !errors.Is(g.Err(), ErrExpired) {
			r.Errorf("first check after waking: valid %v, %v, err %v", g.Valid(), asked.Valid(), g.Err())
		}
		select {
		case <-g.Done():
		default:
			r.Error("not told at once what the check has found")
		}
		if d := r.ended("who only waits", waiting.Done(), time.Minute); d > time.Second {
			r.Errorf("told %v after waking", d)
		}
	})
}

// A nap that the term survives costs nothing but the time: the renewal that fell due goes out within a second.
func TestSession_AShortSleepIsSurvived(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		time.Sleep(5 * time.Minute)
		r.quiet()
		before := len(r.renewals(s))
		s.clk.Suspend(s.Remaining() - 2*time.Second)
		time.Sleep(time.Second)
		r.quiet()
		if !s.Valid() || len(r.renewals(s)) == before {
			r.Errorf("a second after waking with two left: valid %v, %d renewals", s.Valid(), len(r.renewals(s))-before)
		}
	})
}

// R6: what frees the name is sent only after the belief has ended.
func TestGrant_BeliefEndsBeforeTheRequestThatFreesTheName(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, g *Grant) error{
		"Release": func(ctx context.Context, g *Grant) error { return g.Release(ctx) },
		"Resign": func(ctx context.Context, g *Grant) error {
			return (&Leadership{Grant: g, turn: make(chan struct{}, 1)}).Resign(ctx)
		},
		"Close": func(ctx context.Context, g *Grant) error { return g.Session().Close(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				g := r.lock(r.open(Config{}), "a")
				r.delay(50*time.Millisecond, 50*time.Millisecond)
				arrived := 0
				look := func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
					arrived++
					if g.Valid() || g.Err() == nil || g.Remaining() != 0 {
						r.Errorf("still believed when the request arrived")
					}
					return next(ctx)
				}
				r.cluster.Hook(etcdfake.On("KV/Txn", look))
				r.cluster.Hook(etcdfake.On("Lease/LeaseRevoke", look))
				r.must(end(r.Context(), g))
				if arrived != 1 {
					r.Errorf("%d requests freed the name, want 1", arrived)
				}
				if keys := r.cluster.Keys(""); len(keys) != 0 {
					r.Errorf("keys left: %v", keys)
				}
			})
		})
	}
}
