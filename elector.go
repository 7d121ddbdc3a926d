// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Elector campaigns for ever: it stands in line, leads, and after a loss opens a new session and stands in line again. Its
// shape is that of client-go's leaderelection; what differs is in docs/elections.md.
//
// The states of [Elector.Run], in its goroutine:
//
//	opening   no session; tries, with jittered backoff, to get one
//	in line   a candidate waits
//	leading   OnStartedLeading runs, its context is alive
//	stopping  its context has ended, for one reason; it still runs, or OnStoppedLeading does
//	giving    both have returned; the leadership is resigned
//	out       held off for a while, so that another replica wins
//
// What is never done: to resign, to revoke the lease, to delete the key or to stand in line again in the states leading
// and stopping. While it stops, work keeps the name for as long as the lease can be renewed: nobody else leads then. A lease
// that cannot be renewed, or that was taken away, runs out below it, and if somebody else can lead soon, the
// overrun policy takes effect.
//
//	leading   -> stopping   Run's context or the grant has ended, expiry less Grace has come, StepDown, no Progress, or the work has returned
//	stopping  -> giving     OnStartedLeading has returned, or panicked, and then OnStoppedLeading
//	giving    -> out        resigned, or two seconds have passed: the rest is done behind; at once in line again after a loss
//	any       -> the end    Run's context has ended: by way of stopping and giving, if need be
//
// Goroutines: Run is the caller's, and the work and OnStoppedLeading run in it, so that their panics are the caller's
// too. Besides, while Run runs: one observes the line, one calls OnNewLeader, and while a leadership lasts, one watches
// over it. Run waits for all of them, except in a panic. No lock is held while one of the caller's functions runs.
//
// All methods are safe for concurrent use.
type Elector struct {
	client  *Client
	cfg     ElectorConfig
	journal *journal // a log that blocks must not hold up the end of a term

	running atomic.Bool
	reign   atomic.Pointer[reign] // from the start of the work until the leadership is given back; nil otherwise
	news    news                  // who leads

	mu      sync.Mutex
	trouble error // why there is no candidate in line, nil if there is one

	// Of Run's goroutine only.
	session *Session
	aside   sync.WaitGroup // what Run waits for in the end
}

// What ends the context of an elector's work while the leadership itself could go on; see [context.Cause].
var (
	// ErrExpiring reports that the local expiry is near and no renewal has been answered: the Grace of the elector has begun.
	ErrExpiring = errors.New("leasehold: the lease's local expiry is near and no renewal is answered")

	// ErrSteppedDown reports that [Elector.StepDown] was called.
	ErrSteppedDown = errors.New("leasehold: stepped down on request")

	// ErrNoProgress reports that the work has not called [Leadership.Progress] in time.
	ErrNoProgress = errors.New("leasehold: the work makes no progress")
)

// errReturned: the work has returned by itself.
var errReturned = errors.New("leasehold: the work has returned")

const (
	// givingWait bounds how long Run waits for the answer to a resignation, or to the revocation of its lease.
	givingWait = 2 * time.Second
	// settledAfter is how long a candidate must have stood or led for the next failure to count as the first.
	settledAfter = 5 * time.Second
)

// String names the elector for people: its election.
func (e *Elector) String() string { return fmt.Sprintf("leasehold elector for %q", e.cfg.Name) }

// GoString is String: the fields are not for looking at while the elector is in use.
func (e *Elector) GoString() string { return e.String() }

// NewElector returns an elector for client. It sends nothing: [Elector.Run] does. Run must have ended before client is
// closed, because that takes the lease away below it. Errors match [ErrInvalidConfig].
func NewElector(client *Client, cfg ElectorConfig) (*Elector, error) {
	if client == nil {
		return nil, fmt.Errorf("leasehold: new elector: %w: the client is nil", ErrInvalidConfig)
	}
	cfg, err := cfg.withDefaults(client.cfg)
	if err != nil {
		return nil, fmt.Errorf("leasehold: new elector: %w", err)
	}
	return &Elector{
		client: client, cfg: cfg, journal: newJournal(client.cfg.Logger.With(zap.String("election", cfg.Name))),
	}, nil
}

// Run stands for election until ctx ends. It uses a session of its own, and goes on through every failure of etcd: it logs
// it ([Config.Logger]), tells it ([Elector.Err]) and tries again.
//
// When ctx ends: the context of the work ends, the work returns, OnStoppedLeading returns, and then the leadership is
// given back, so that a successor takes over within milliseconds. Run returns nil then, also if etcd did not answer in two
// seconds: the lease runs out by itself. Other errors: [ErrClosed] if the client or its etcd client was closed, and
// [ErrInvalidConfig] if Run runs already.
func (e *Elector) Run(ctx context.Context) error {
	if !e.running.CompareAndSwap(false, true) {
		return fmt.Errorf("leasehold: run elector for %q: %w: it runs already", e.cfg.Name, ErrInvalidConfig)
	}
	defer e.running.Store(false)
	aside, cancel := context.WithCancel(ctx)
	go e.journal.run(aside) // not waited for: it can be stuck in a log
	panicked := true
	defer func() {
		e.quit(ctx)
		cancel()
		if !panicked { // a panic is not held up by a function of the caller that does not return
			e.aside.Wait()
			e.news.forget()
		}
	}()
	e.aside.Go(func() { e.follow(aside) })
	e.aside.Go(func() { e.news.tell(aside, e.cfg.OnNewLeader) })
	err := e.run(ctx)
	panicked = false
	if err != nil {
		return fmt.Errorf("leasehold: run elector for %q: %w", e.cfg.Name, err)
	}
	return nil
}

func (e *Elector) run(ctx context.Context) error {
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := e.once(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errClosedClient), errors.Is(err, errClientClosed):
			return err // there is nothing left to stand on
		case err == nil: // led, and gave it up
			failures = 0
			continue
		}
		if time.Since(began) > settledAfter {
			failures = 0
		}
		e.mu.Lock()
		e.trouble = err
		e.mu.Unlock()
		e.journal.warn("leasehold: elector: trying again", zap.Error(err), zap.Int("failures", failures+1))
		_ = pause(ctx, min(20*time.Millisecond<<min(failures, 8), 5*time.Second)) // ends early only with ctx
		failures++
	}
	return nil
}

// once stands for election once, and leads if it wins. nil: it led, gave that up, and was held off. Otherwise it is
// the reason of a failure or of the loss.
func (e *Elector) once(ctx context.Context) error {
	s, err := e.stand(ctx)
	if err != nil {
		return err
	}
	l, err := s.Election(e.cfg.Name).campaign(ctx, e.cfg.Value, e.settled)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // too late to start anything
		e.giveBack(l)
		return ending(ctx)
	}
	return e.lead(ctx, l)
}

// settled: there is a candidate in line.
func (e *Elector) settled() {
	e.mu.Lock()
	e.trouble = nil
	e.mu.Unlock()
}

// stand returns the elector's session, a new one if need be. An attempt is bounded by a term, so that a silent cluster
// is told.
func (e *Elector) stand(ctx context.Context) (*Session, error) {
	if e.session != nil && e.session.Valid() {
		return e.session, nil
	}
	e.drop()
	octx, cancel := context.WithTimeout(ctx, e.client.cfg.TTL)
	defer cancel()
	defer context.AfterFunc(e.client.ctx, cancel)()
	s, err := openSession(octx, e.client.etcd, e.client.cfg)
	if err == nil {
		s.retain()
		e.session = s // quit closes it
		err = e.client.adopt(s)
	} else if e.client.ctx.Err() != nil {
		err = context.Cause(e.client.ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open a session: %w", err)
	}
	return s, nil
}

// drop lets the session go, if there is one: what was left in etcd when it was lost is tidied up.
func (e *Elector) drop() {
	if e.session != nil {
		e.session.letGo()
		e.client.disown(e.session)
		e.session = nil
	}
}

// quit closes the session, so that a candidate of it does not stand in anybody's way.
func (e *Elector) quit(ctx context.Context) {
	s := e.session
	if s == nil {
		return
	}
	e.drop()
	gctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingWait)
	defer cancel()
	if err := s.Close(gctx); err != nil && !errors.Is(err, ErrClosed) {
		e.journal.warn("leasehold: elector: the lease is still to be revoked", zap.Error(err))
	}
}

// lead is one reign: it starts the work, stops it and gives the leadership back. The deferred calls are in the order in
// which a panic needs them, too.
func (e *Elector) lead(ctx context.Context, l *Leadership) error {
	r := e.newReign(ctx, l)
	e.reign.Store(r)
	e.news.led(leaderOfGrant(l, e.cfg.Value))
	e.journal.info("leasehold: elector: leading", zap.Stringer("token", l.Token()))
	func() {
		defer func() {
			r.wg.Wait()
			r.result = e.giveBack(l)
			if !r.session.Valid() {
				e.drop() // now the lease can be revoked: before any holding off
			}
			e.reign.Store(nil)
			close(r.over)
		}()
		defer close(r.returned)
		defer func() {
			r.cancel(errReturned) // if nothing has before
			if e.cfg.OnStoppedLeading != nil {
				e.cfg.OnStoppedLeading()
			}
		}()
		r.wg.Go(func() { r.run(ctx) })
		e.cfg.OnStartedLeading(r.ctx, l)
	}()
	cause := context.Cause(r.ctx)
	e.journal.info("leasehold: elector: no longer leading", zap.Stringer("token", l.Token()), zap.NamedError("cause", cause))
	if isAny(cause, ErrSteppedDown, ErrNoProgress, errReturned) {
		e.news.awaitOther(ctx, l.Token(), e.cfg.HoldOff)
		return nil
	}
	return cause
}

// giveBack resigns. What could not be done in time is done behind.
func (e *Elector) giveBack(l *Leadership) error {
	// The resignation is due although Run's context may have ended.
	gctx, cancel := context.WithTimeout(context.WithoutCancel(l.Context()), givingWait)
	defer cancel()
	err := l.Resign(gctx)
	if err != nil {
		what := "is still to be resigned"
		if errors.Is(err, ErrNotLeader) {
			what = "had been lost"
		}
		e.journal.info("leasehold: elector: the leadership "+what, zap.Error(err))
	}
	return err
}

// IsLeader reports whether this replica leads: the work runs, its context is alive and the local expiry lies ahead at
// this moment. It takes no lock and never blocks.
//
// It is what this replica believes, and [Elector.Leader] what it has heard of the line; they come by different ways and can differ for
// a moment. If an operator deletes the leader's key, Leader may say that nobody leads a round trip or so before IsLeader turns false
// (up to two seconds in the first second of a leadership), or the other way round. Neither makes a write safe: send the token along.
func (e *Elector) IsLeader() bool {
	r := e.reign.Load()
	return r != nil && r.ctx.Err() == nil
}

// Leadership returns the leadership of this replica, or nil if it does not lead.
func (e *Elector) Leadership() *Leadership {
	if r := e.reign.Load(); r != nil && r.ctx.Err() == nil {
		return r.l
	}
	return nil
}

// Leader returns who leads as far as this replica has heard, the zero Leader if nobody does or Run does not run. It never goes
// back to an earlier leader. It can be behind; what counts at a leader is [Leadership.Valid], and elsewhere the token.
func (e *Elector) Leader() Leader { return e.news.leader() }

// Err tells whether this replica takes part in the election: nil while it leads or has a candidate in line, as well as before the first
// attempt has ended, and otherwise why not, which is the error of the last attempt or the reason for which the last leadership was lost.
// It matches [ErrExpired], [ErrRevoked], [ErrRolledBack] or [ErrClosed], wraps etcd's own error, or [context.DeadlineExceeded] if etcd
// did not answer within a term. A failure is shown until the next attempt succeeds. It does not say whether this replica leads: see
// [Elector.IsLeader].
func (e *Elector) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.trouble
}

// StepDown ends this replica's leadership in the orderly way: the context of the work ends with [ErrSteppedDown], the work
// returns, and the leadership is given back. Then this replica stays out of the line for HoldOff, or until another one leads.
//
// It returns nil when the leadership was given back, ctx's error when ctx ends first (the stepping down goes on), and
// an error that matches [ErrNotLeader] if this replica does not lead or has lost the leadership meanwhile. Do not call it
// from OnStartedLeading except with that function's own context: it waits for that to return. To step down from there, return.
func (e *Elector) StepDown(ctx context.Context) error {
	r := e.reign.Load()
	if r == nil {
		return fmt.Errorf("leasehold: step down from %q: %w", e.cfg.Name, ErrNotLeader)
	}
	r.cancel(ErrSteppedDown)
	select {
	case <-r.over:
	case <-ctx.Done():
		return fmt.Errorf("leasehold: step down from %q: %w", e.cfg.Name, ending(ctx))
	}
	if r.result != nil {
		return fmt.Errorf("leasehold: step down: %w", r.result)
	}
	return nil
}

// adopt makes Close end s, too. s takes no part in the pool otherwise: it counts as full.
func (c *Client) adopt(s *Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosedClient
	}
	s.load.Add(perLease)
	s.borrowed = true
	c.sessions = append(c.sessions, s)
	return nil
}

// disown is the opposite of adopt.
func (c *Client) disown(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sessions = slices.DeleteFunc(c.sessions, func(o *Session) bool { return o == s })
}
