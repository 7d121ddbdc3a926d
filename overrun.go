// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// OverrunPolicy is what an elector does about work that goes on although somebody else is about to lead.
type OverrunPolicy int

const (
	// OverrunReport logs an error and calls OnOverrun if it is set, and no more: the leadership is not Valid, transactions
	// of its grant are refused, the elector does not stand in line before the work has returned, and Check turns unhealthy.
	// What protects the resource from the work that goes on is that it compares tokens (R13).
	OverrunReport OverrunPolicy = iota

	// OverrunExit writes the reason to the log and to standard error and ends the process with status 1, without
	// deferred calls. For resources that cannot compare tokens.
	OverrunExit
)

// Overrun describes work that still runs although its leadership has ended.
type Overrun struct {
	// Name is the name of the election.
	Name string
	// Token is the token under which the work was started. Resources that compare tokens refuse it once a successor has written.
	Token Token
	// Reason is why the context of the work ended.
	Reason error
	// Stopping is how long ago that was.
	Stopping time.Duration
	// Distance is how long it takes until somebody else can lead at the earliest, not counting what etcd needs to find that out.
	// Zero or less: somebody may lead already.
	Distance time.Duration
}

// taken reports whether the lease or the key was taken away, as opposed to a lease that runs out.
func (r *reign) taken() bool {
	err := r.l.Err()
	runsOut := err == nil || errors.Is(err, ErrExpired) || r.abandoned && errors.Is(err, ErrClosed)
	return !runsOut
}

// overrunAt is when the overrun policy takes effect.
func (r *reign) overrunAt(expiry clock.Instant) clock.Instant {
	margin := r.elector.client.cfg.Margin
	if r.taken() {
		if r.lost == notYet {
			r.lost = r.session.clk.Now() // run is about to hear of it
		}
		return r.lost.Add(margin)
	}
	return expiry.Add(margin).Add(-r.elector.cfg.OverrunDistance)
}

// act carries out the overrun policy.
func (r *reign) act(now clock.Instant) {
	e := r.elector
	o := Overrun{
		Name: e.cfg.Name, Token: r.l.Token(), Reason: context.Cause(r.ctx),
		Stopping: now.Sub(clock.Instant(r.ended.Load())),
	}
	if !r.taken() {
		o.Distance = clock.Instant(r.expiry.Load()).Add(e.client.cfg.Margin).Sub(now)
	}
	e.journal.write(e.journal.log, zap.ErrorLevel, "leasehold: elector: overrun: the work still runs although somebody else is about to lead",
		[]zap.Field{zap.Stringer("token", o.Token), zap.NamedError("cause", o.Reason), zap.Duration("stopping", o.Stopping), zap.Duration("distance", o.Distance)})
	switch {
	case e.cfg.Overrun == OverrunExit:
		exit(o)
	case e.cfg.OnOverrun != nil:
		e.aside.Go(func() { e.cfg.OnOverrun(o) })
	}
}

// exit ends the process, and says why if that can be done at once: a pipe that nobody reads must not hold it up.
func exit(o Overrun) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		fmt.Fprintf(os.Stderr, "leasehold: election %q: the work with token %s still runs %v after it was to stop (%v), and somebody else can lead in %v: exit\n",
			o.Name, o.Token, o.Stopping, o.Reason, o.Distance)
	}()
	patience := time.NewTimer(10 * time.Millisecond)
	select {
	case <-written:
	case <-patience.C:
	}
	os.Exit(1)
}

// late tells that work which had overrun has returned.
func (r *reign) late() {
	if r.overrun {
		r.elector.journal.warn("leasehold: elector: work that had overrun has returned", zap.Stringer("token", r.l.Token()),
			zap.Duration("stopping", r.session.clk.Now().Sub(clock.Instant(r.ended.Load()))))
	}
}
