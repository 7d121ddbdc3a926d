// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// LockOption varies one call of Lock, TryLock or Do.
type LockOption interface{ apply(*lockOptions) }

type lockOptions struct{ holder string }

type holderOption string

func (h holderOption) apply(o *lockOptions) { o.holder = string(h) }

// WithHolder names the holder of one lock, in place of [Config.Holder]. At most 256 KiB, of which [LockedError] shows the beginning.
func WithHolder(holder string) LockOption { return holderOption(holder) }

// Lock waits in line for the name and returns the grant. Free, it costs one round trip. The line is in the order in which the
// keys reached etcd, across sessions, processes and etcd's own concurrency package (see [Config.Prefix]); goroutines of one
// session exclude each other like anybody else. Locks are not re-entrant: who locks a name that he holds, also by Do within Do,
// waits for himself until ctx ends.
//
// ctx bounds the wait. When it ends, Lock returns an error that matches ctx.Err() and [context.Cause] and tells what it waited for,
// and the place in line is removed in the background. Other
// errors: [ErrInvalidName]; the reason of the session's end, [ErrExpired], [ErrRevoked], [ErrRolledBack] or [ErrClosed];
// [ErrRevoked] if somebody deleted the waiter's key; etcd's own error if it refuses (permission, space). With
// an error nothing is held, and nothing blocks the name for longer than about a term.
func (s *Session) Lock(ctx context.Context, name string, opts ...LockOption) (*Grant, error) {
	s.load.Add(1)
	return s.lockCounted(ctx, name, opts)
}

// lockCounted is Lock for a caller that has counted the place in the session's load.
func (s *Session) lockCounted(ctx context.Context, name string, opts []LockOption) (*Grant, error) {
	g, err := s.lock(ctx, name, s.holder(opts))
	if err != nil {
		return nil, fmt.Errorf("leasehold: lock %s: %w", quoteBounded(name), err)
	}
	return g, nil
}

// TryLock takes the name if nobody holds it or waits for it, and otherwise returns a [*LockedError] at once and leaves no
// trace in etcd. It costs one round trip.
func (s *Session) TryLock(ctx context.Context, name string, opts ...LockOption) (*Grant, error) {
	s.load.Add(1)
	return s.tryLockCounted(ctx, name, opts)
}

func (s *Session) tryLockCounted(ctx context.Context, name string, opts []LockOption) (*Grant, error) {
	g, err := s.tryLock(ctx, name, s.holder(opts))
	if locked, ok := errors.AsType[*LockedError](err); ok {
		return nil, locked
	}
	if err != nil {
		return nil, fmt.Errorf("leasehold: try to lock %s: %w", quoteBounded(name), err)
	}
	return g, nil
}

// Do locks the name, calls fn and releases the name when fn has returned, also when it panics. The context given to fn ends with
// ctx and with the grant, whichever is first, with the cause of that, and carries the grant ([FromContext]). fn
// must stop when it ends: the name is released only after fn has returned. fn may release the grant itself.
//
// Do returns fn's error, joined with the reason if the grant was lost meanwhile: then parts of fn may have run without
// protection, and what counts is whether the resource checked the token. A release that could not be completed in
// time is not an error: it goes on in the background.
func (s *Session) Do(ctx context.Context, name string, fn func(ctx context.Context, g *Grant) error, opts ...LockOption) error {
	return do(ctx, name, fn, func() (*Grant, error) { return s.Lock(ctx, name, opts...) })
}

func do(ctx context.Context, name string, fn func(ctx context.Context, g *Grant) error, lock func() (*Grant, error)) (err error) {
	if fn == nil {
		return fmt.Errorf("leasehold: do %s: the function is nil", quoteBounded(name))
	}
	g, err := lock()
	if err != nil {
		return err
	}
	defer func() {
		// The release is due even though ctx may have ended; when it takes too long it goes on behind.
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWait)
		defer cancel()
		defer context.AfterFunc(ctx, func() {
			_ = pause(rctx, releaseGrace)
			cancel()
		})()
		if _, rerr := g.release(rctx); rerr != nil && rctx.Err() == nil && !errors.Is(rerr, ErrReleased) {
			lost := fmt.Errorf("leasehold: do %s: the grant was lost while the function ran: %w", quoteBounded(name), rerr)
			if err != nil {
				lost = fmt.Errorf("%w; %w", err, lost)
			}
			err = lost
		}
	}()
	fctx, cancel := context.WithCancelCause(NewContext(ctx, g))
	defer cancel(nil)
	defer context.AfterFunc(g.Context(), func() { cancel(context.Cause(g.Context())) })()
	return fn(fctx, g)
}

// releaseWait is how long Do waits for the answer to its release, and releaseGrace how long after its context has ended.
const releaseWait, releaseGrace = 5 * time.Second, 500 * time.Millisecond

func (s *Session) holder(opts []LockOption) string {
	o := lockOptions{holder: s.cfg.Holder}
	for _, opt := range opts {
		if opt != nil {
			opt.apply(&o)
		}
	}
	return o.holder
}

// ready refuses before anything is sent.
func (s *Session) ready(ctx context.Context, name, value string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if len(value) > maxValueBytes {
		return fmt.Errorf("%w: a value of %d bytes, want at most %d", ErrInvalidConfig, len(value), maxValueBytes)
	}
	if err := s.Err(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ending(ctx)
	}
	return nil
}

// maxValueBytes bounds what a key of ours carries, so that a place always fits into a request.
const maxValueBytes = 256 << 10

// lock takes a place, counted by the caller, and waits until it is first.
func (s *Session) lock(ctx context.Context, name, value string) (*Grant, error) {
	if err := s.ready(ctx, name, value); err != nil {
		s.unload()
		return nil, err
	}
	for {
		p := s.newPlace(name, value)
		a, err := p.join(ctx)
		if errors.Is(err, errStranger) {
			s.load.Add(1) // another place, with another key
			p.stranger = true
			p.leave()
			continue
		}
		if err == nil {
			err = p.wait(ctx, a)
		}
		return p.conclude(err)
	}
}

// conclude makes the grant of a place that has come first, or leaves it.
func (p *place) conclude(err error) (*Grant, error) {
	var g *Grant
	if err == nil {
		g, err = p.grant()
	}
	if err != nil {
		p.leave()
		if lost := p.session.Err(); lost != nil && errors.Is(err, ErrRevoked) {
			return nil, lost // the key went with its lease, whose end is the reason
		}
		return nil, err
	}
	return g, nil
}

func (s *Session) tryLock(ctx context.Context, name, value string) (*Grant, error) {
	if err := s.ready(ctx, name, value); err != nil {
		s.unload()
		return nil, err
	}
	p := s.newPlace(name, value)
	return p.conclude(p.take(ctx))
}

// take puts the key if the line is empty. One compare covers the whole line, so that a line with somebody in it is not
// disturbed: nothing is put that would have to be removed.
func (p *place) take(ctx context.Context) error {
	first := clientv3.OpGet(p.dir, append(clientv3.WithFirstCreate(), clientv3.WithPrefix())...)
	p.acquire = &write{
		line: p.dir, whole: true, size: p.size(),
		cmps: []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(p.dir).WithPrefix(), "=", 0)},
		then: []clientv3.Op{p.put(), clientv3.OpGet(p.key, clientv3.WithKeysOnly())},
		els:  []clientv3.Op{first},
	}
	resp, err := p.session.engine.writes.await(ctx, p.session, p.acquire)
	if err != nil {
		return p.refused(ctx, err)
	}
	answer := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
	if len(answer) == 0 {
		return errOddAnswer
	}
	holder := answer[0]
	p.stranger = !resp.Succeeded && string(holder.GetKey()) == p.key && !p.ours(holder)
	if p.stranger || string(holder.GetKey()) != p.key {
		return &LockedError{Name: p.name, Holder: string(holder.GetValue()), Token: Token(holder.GetCreateRevision())}
	}
	return p.took(holder) // put by this attempt or by one before it
}
