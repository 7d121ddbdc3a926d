// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// A reign is one leadership of an elector, from the start of its work until it is given back. The work runs in Run's
// goroutine; run, in one of its own, is the only one that decides when it must stop, apart from StepDown and from the grant,
// whose end is the end of the work's context whatever this goroutine does.
//
// When somebody else can lead, in the holder's clock and at the earliest:
//
//	the lease is live, has expired, or is not renewed any more   expiry + margin (the local expiry leaves the margin unused)
//	the lease or the key was taken away, the cluster replaced    at once
//
// Which the overrun policy is measured by. In the second case there is no distance to keep, and work that returns within
// the margin has not overrun.
type reign struct {
	elector *Elector
	l       *Leadership
	session *Session
	ctx     context.Context // the work's
	cancel  context.CancelCauseFunc

	wg       sync.WaitGroup
	returned chan struct{} // closed when the work and OnStoppedLeading have returned
	over     chan struct{} // closed when the leadership has been given back
	result   error         // of giving it back; written before over is closed

	// Read by Check, written by run only. ended is when run has seen the work's context ended, expiry the local
	// expiry as run has last seen it, which is never later than it really was.
	ended  atomic.Int64
	expiry atomic.Int64

	// Of run's goroutine only.
	lost      clock.Instant // when run has seen that the grant has ended; notYet before
	abandoned bool          // run has stopped the renewal of the lease
	warned    bool          // that the work does not return
	overrun   bool          // the policy has taken effect
}

const notYet = math.MaxInt64

func (e *Elector) newReign(ctx context.Context, l *Leadership) *reign {
	r := &reign{
		elector: e, l: l, session: l.Session(), lost: notYet,
		returned: make(chan struct{}), over: make(chan struct{}),
	}
	r.ended.Store(notYet)
	// Shutdown goes through run, so that there is one order of events; ctx gives the values only.
	inner, cancel := context.WithCancelCause(NewContext(context.WithoutCancel(ctx), l.Grant))
	r.ctx, r.cancel = &workContext{Context: inner, cancel: cancel, grant: l.Grant}, cancel
	// Not through run either: it may be late.
	context.AfterFunc(l.Context(), func() { cancel(context.Cause(l.Context())) })
	l.Progress()
	r.expiry.Store(int64(r.session.clk.Now())) // if the session has ended meanwhile: too early rather than too late
	r.see()
	return r
}

// workContext is the context of an elector's work. Its Err compares the clock (R4): a process that was stopped for longer than
// the term does not find it alive when it goes on, even if no other goroutine has run yet.
type workContext struct {
	context.Context
	cancel context.CancelCauseFunc
	grant  *Grant
}

func (c *workContext) Err() error {
	if c.Context.Err() == nil {
		if lost := c.grant.Err(); lost != nil {
			c.cancel(lost)
		}
	}
	return c.Context.Err()
}

// see notes the local expiry while there is one.
func (r *reign) see() clock.Instant {
	if e := r.session.expiry.Load(); e != longAgo {
		r.expiry.Store(e)
	}
	return clock.Instant(r.expiry.Load())
}

// run watches over the reign until the work has returned.
func (r *reign) run(shutdown context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	down, ended, lost := shutdown.Done(), r.ctx.Done(), r.l.Done()
	for {
		select {
		case <-r.returned:
			r.late()
			return
		case <-down:
			down = nil
			r.cancel(context.Cause(shutdown))
		case <-ended:
			ended = nil
		case <-lost:
			lost = nil
			r.lost = min(r.lost, r.session.clk.Now())
		case <-timer.C:
		}
		timer.Reset(min(tick, max(0, r.look(r.session.clk.Now()))))
	}
}

// look does what is to be done now and returns how long there is nothing to do.
func (r *reign) look(now clock.Instant) time.Duration {
	cfg := &r.elector.cfg
	expiry := r.see()
	r.checkProgress(now)
	if r.ctx.Err() == nil {
		last := expiry.Add(-cfg.Grace)
		if now.Before(last) {
			return min(last.Sub(now), r.untilNoProgress(now))
		}
		r.cancel(ErrExpiring)
	}
	if r.ended.Load() == notYet {
		r.ended.Store(int64(now))
		r.elector.journal.info("leasehold: elector: stopping", zap.Stringer("token", r.l.Token()), zap.NamedError("cause", context.Cause(r.ctx)))
	}
	if patient := clock.Instant(r.ended.Load()).Add(cfg.Grace); !r.warned && !now.Before(patient) {
		r.warned = true
		r.elector.journal.warn("leasehold: elector: the work does not return; nobody else leads while its lease can be renewed",
			zap.Stringer("token", r.l.Token()), zap.Duration("stopping", cfg.Grace))
	}
	at := r.overrunAt(expiry)
	if !r.overrun && !now.Before(at) {
		r.overrun = true
		r.act(now)
	}
	if r.overrun {
		return tick
	}
	return min(at.Sub(now), r.untilNoProgress(now))
}

// checkProgress stops hung work, also work that hangs while it is to stop: the lease is not renewed any more. It is not
// revoked either, because the work may go on.
func (r *reign) checkProgress(now clock.Instant) {
	if r.abandoned || !r.session.Valid() || r.untilNoProgress(now) > 0 {
		return
	}
	r.abandoned = true
	r.cancel(ErrNoProgress)
	r.session.Abandon()
}

func (r *reign) untilNoProgress(now clock.Instant) time.Duration {
	deadline := r.elector.cfg.Progress
	if deadline == 0 || r.abandoned || r.session.ended() {
		return tick
	}
	return clock.Instant(r.l.progressed.Load()).Add(deadline).Sub(now)
}
