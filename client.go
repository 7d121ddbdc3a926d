// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Client is a pool of sessions over one etcd client, as sql.DB is one of connections: it opens a session on first use,
// replaces a lost one for new calls, and spreads many grants over several leases, because etcd removes the keys of a lease
// in one blocking step. All its sessions share one keepalive stream.
//
// A grant belongs to the session that it was made on, and is lost with it: nothing is silently re-acquired. What waits
// on a session when it is lost fails with the reason.
//
// A Client is made by [New], and only by that. All methods are safe for concurrent use.
type Client struct {
	etcd *clientv3.Client
	cfg  Config

	mu       sync.Mutex // never held across the network
	sessions []*Session
	opening  chan struct{} // closed when the opening under way has ended; nil: none is
	failures int           // openings that failed in a row
	young    int           // sessions in a row that died soon after they were opened
	closed   bool
	used     bool // a session was opened

	// ctx ends with Close, and with it an opening under way. background are Closes of sessions that nobody waits for.
	ctx        context.Context
	cancel     context.CancelCauseFunc
	background sync.WaitGroup
}

// perLease is how many grants and waiters share a lease. An etcd server removes the keys of a lease in one blocking
// step, and under RBAC it looks through them at every put.
const perLease = 256

// New returns a client. It sends nothing: sessions are opened when they are needed. The etcd client stays the caller's,
// to be closed after the Client. Errors match [ErrInvalidConfig] or [ErrClosed].
func New(client *clientv3.Client, cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkClient(client); err != nil {
		return nil, fmt.Errorf("leasehold: new client: %w", err)
	}
	if !strings.HasSuffix(cfg.Prefix, "/") {
		cfg.Logger.Warn("leasehold: the prefix does not end with a slash: whoever uses it with one excludes nobody here", zap.String("prefix", cfg.Prefix))
	}
	c := &Client{etcd: client, cfg: cfg}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(client.Ctx()))
	return c, nil
}

// String names the client for people: its prefix.
func (c *Client) String() string { return fmt.Sprintf("leasehold client of %q", c.cfg.Prefix) }

// GoString is String: the fields are not for looking at while the client is in use.
func (c *Client) GoString() string { return c.String() }

// Session returns a session with room for another grant, opened if need be. It belongs to the Client, which closes it.
// ctx bounds the opening only.
func (c *Client) Session(ctx context.Context) (*Session, error) {
	s, err := c.reserve(ctx)
	if err != nil {
		return nil, fmt.Errorf("leasehold: session: %w", err)
	}
	s.lent.Store(true)
	s.unload()
	return s, nil
}

// Lock is [Session.Lock] on a session of the pool.
func (c *Client) Lock(ctx context.Context, name string, opts ...LockOption) (*Grant, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("leasehold: lock %s: %w", quoteBounded(name), err)
	}
	s, err := c.reserve(ctx)
	if err != nil {
		return nil, fmt.Errorf("leasehold: lock %s: %w", quoteBounded(name), err)
	}
	return s.lockCounted(ctx, name, opts)
}

// TryLock is [Session.TryLock] on a session of the pool.
func (c *Client) TryLock(ctx context.Context, name string, opts ...LockOption) (*Grant, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("leasehold: try to lock %s: %w", quoteBounded(name), err)
	}
	s, err := c.reserve(ctx)
	if err != nil {
		return nil, fmt.Errorf("leasehold: try to lock %s: %w", quoteBounded(name), err)
	}
	return s.tryLockCounted(ctx, name, opts)
}

// Do is [Session.Do] on a session of the pool.
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, g *Grant) error, opts ...LockOption) error {
	return do(ctx, name, fn, func() (*Grant, error) { return c.Lock(ctx, name, opts...) })
}

// Close closes all sessions, side by side, and so ends all grants: belief first. Calls that need a session fail with [ErrClosed] from
// then on, also [Elector.Run]; who leads can still be asked, by [Election.Leader] and the like, which need none. Close again returns
// nil. It returns the errors of the sessions' Close, joined.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	first, used := !c.closed, c.used
	c.closed = true
	sessions, opening := c.sessions, c.opening
	c.sessions = nil
	c.mu.Unlock()
	errs := make([]error, len(sessions))
	var wg sync.WaitGroup
	for i, s := range sessions {
		wg.Go(func() { errs[i] = s.Close(ctx) })
	}
	wg.Wait()
	if opening != nil {
		// Given up half-way it may leave a lease behind until that runs out; finished, it is closed like the others.
		patience := time.AfterFunc(openingGrace, func() { c.cancel(errClosedClient) })
		select {
		case <-opening:
		case <-ctx.Done():
		}
		patience.Stop()
	}
	c.cancel(errClosedClient)
	rest := make(chan struct{})
	go func() {
		c.background.Wait()
		close(rest)
	}()
	select {
	case <-rest:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("leasehold: close client: %w", ending(ctx)))
	}
	if c.etcd.Ctx().Err() != nil && first && used {
		errs = append(errs, fmt.Errorf("leasehold: close client: %w", errClientClosed))
	}
	return errors.Join(errs...)
}

// openingGrace is how long Close waits for the opening of a session that is under way before it gives it up.
const openingGrace = time.Second

var errClosedClient = fmt.Errorf("%w: the client was closed", ErrClosed)

// reserve returns a live session with room and counts one more on it. One caller at a time opens a session, bounded by
// its own context; whoever waits for that and finds it failed tries with a context of its own, so that nobody gets the
// error of another's context.
func (c *Client) reserve(ctx context.Context) (*Session, error) {
	for {
		if ctx.Err() != nil {
			return nil, ending(ctx)
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			return nil, errClosedClient
		}
		c.dropDeadLocked()
		if i := slices.IndexFunc(c.sessions, func(s *Session) bool { return s.load.Load() < perLease }); i >= 0 {
			s := c.sessions[i]
			if !s.Valid() {
				c.mu.Unlock()
				continue // it is dropped now
			}
			s.load.Add(1)
			c.mu.Unlock()
			return s, nil
		}
		opening := c.opening
		if opening == nil {
			c.opening = make(chan struct{})
			failures := c.failures + c.young
			c.mu.Unlock()
			if err := c.add(ctx, failures); err != nil {
				return nil, err
			}
			continue
		}
		c.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, ending(ctx)
		}
	}
}

// dropDeadLocked forgets sessions that have ended. One that died young counts as a failed opening.
func (c *Client) dropDeadLocked() {
	c.sessions = slices.DeleteFunc(c.sessions, func(s *Session) bool {
		if !s.ended() { // without a look at the clock for each of them
			return false
		}
		switch {
		case s.borrowed, errors.Is(s.reason(), ErrClosed):
			// Of an elector, which backs off by itself, or closed by whoever had it.
		case s.clk.Now().Sub(s.opened) < 2*s.granted:
			c.young++
		default:
			c.young = 0
		}
		return true
	})
}

// add opens a session, after a pause if that has failed before, and ends the opening.
func (c *Client) add(ctx context.Context, failures int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errClosedClient) })()
	var s *Session
	var err error
	if failures > 0 {
		err = pause(ctx, min(25*time.Millisecond<<min(failures, 7), 2*time.Second))
	}
	if err == nil {
		s, err = openSession(ctx, c.etcd, c.cfg)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(c.opening)
	defer func() { c.opening = nil }()
	if err != nil {
		if ctx.Err() == nil {
			c.failures++
		}
		return err
	}
	if c.closed {
		c.closeBehind(s)
		return nil
	}
	c.failures, c.used = 0, true
	s.pool.Store(c)
	c.sessions = append(c.sessions, s)
	return nil
}

// idle closes a session that has become empty, if another has room.
func (c *Client) idle(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || s.lent.Load() {
		return
	}
	room := slices.ContainsFunc(c.sessions, func(o *Session) bool { return o != s && o.load.Load() < perLease/2 })
	if !room || s.load.Load() > 0 {
		return
	}
	if i := slices.Index(c.sessions, s); i >= 0 {
		c.sessions = slices.Delete(c.sessions, i, i+1)
		c.closeBehind(s)
	}
}

// closeBehind closes a session that has left the pool. Called with mu held.
func (c *Client) closeBehind(s *Session) {
	c.background.Go(func() {
		_ = s.Close(context.WithoutCancel(c.ctx)) // bounded by the life of the lease, which runs out by itself
	})
}
