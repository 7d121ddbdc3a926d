// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/etcdfake"
)

// host is a machine: one clock, an etcd client, and two users that share it and with it the SDK's engine.
type host struct {
	run    *run
	number int
	net    *etcdfake.Host
	clock  *clock.Clock

	mu    sync.Mutex // never held across a call
	etcd  *clientv3.Client
	users [users]*user
}

// user is a pool or a session, whichever its number says, opened when it is needed.
type user struct {
	host    *host
	number  int
	etcd    *clientv3.Client
	mu      sync.Mutex // never held across a call
	pool    *leasehold.Client
	session *leasehold.Session
	opening chan struct{} // holds one while a session is opened
}

// locker is what both have.
type locker interface {
	Lock(ctx context.Context, name string, opts ...leasehold.LockOption) (*leasehold.Grant, error)
	TryLock(ctx context.Context, name string, opts ...leasehold.LockOption) (*leasehold.Grant, error)
	Do(ctx context.Context, name string, fn func(ctx context.Context, g *leasehold.Grant) error, opts ...leasehold.LockOption) error
	Election(name string) *leasehold.Election
}

func (r *run) newHost(number int) (*host, error) {
	h := &host{run: r, number: number, net: r.cluster.NewHost(), clock: clock.New()}
	w := r.plan.World
	for i := range w.Members {
		h.net.Link(i).SetDelay(w.Delay, w.Delay)
		h.net.Link(i).SetJitter(w.Delay, w.Delay)
	}
	return h, h.renew()
}

// renew makes an etcd client, and users on it, as a process that starts does.
func (h *host) renew() error {
	cfg := h.net.Config()
	cfg.Context = clock.NewContext(context.WithoutCancel(h.run.ctx), h.clock)
	etcd, err := clientv3.New(cfg)
	if err != nil {
		return fmt.Errorf("make an etcd client: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.etcd = etcd
	for i := range h.users {
		u := &user{host: h, number: i, etcd: etcd, opening: make(chan struct{}, 1)}
		if i == 0 {
			if u.pool, err = leasehold.New(etcd, h.config()); err != nil {
				return err
			}
		}
		h.users[i] = u
	}
	return nil
}

func (h *host) config() leasehold.Config {
	w := h.run.plan.World
	return leasehold.Config{TTL: w.TTL, DriftBound: w.Drift, Margin: w.Margin, Holder: fmt.Sprintf("h%d", h.number)}
}

func (h *host) user(i int) *user {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users[i]
}

// locker returns what the user locks with, opened if need be.
func (u *user) locker(ctx context.Context) (locker, error) {
	u.mu.Lock()
	pool := u.pool
	u.mu.Unlock()
	if pool != nil {
		return pool, nil
	}
	if u.number == 0 {
		pool, err := leasehold.New(u.etcd, u.host.config())
		if err != nil {
			return nil, err
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.pool == nil {
			u.pool = pool // it has sent nothing, so the other is simply forgotten
		}
		return u.pool, nil
	}
	select {
	case u.opening <- struct{}{}:
		defer func() { <-u.opening }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	u.mu.Lock()
	old := u.session
	u.mu.Unlock()
	if old != nil && old.Remaining() > 0 {
		return old, nil
	}
	began := time.Now()
	s, err := leasehold.NewSession(ctx, u.etcd, u.host.config())
	u.host.run.judge.returned("NewSession", ctx, began)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.session = s
	u.mu.Unlock()
	u.host.run.judge.opened(u, s)
	if old != nil {
		u.host.run.closed(u.host, "Close of a lost session", old.Close(ctx))
	}
	return s, nil
}

// take takes away what the user has, so that the next call opens another.
func (u *user) take() (*leasehold.Client, *leasehold.Session) {
	u.mu.Lock()
	defer u.mu.Unlock()
	pool, session := u.pool, u.session
	u.pool, u.session = nil, nil
	return pool, session
}

func (u *user) close(ctx context.Context) error {
	pool, session := u.take()
	began := time.Now()
	defer func() { u.host.run.judge.returned("Close", ctx, began) }()
	var errs []error
	if pool != nil {
		errs = append(errs, pool.Close(ctx))
	}
	if session != nil {
		errs = append(errs, session.Close(ctx))
	}
	return errors.Join(errs...)
}

// quit closes the etcd client under its users, as a program does that ends in the wrong order, and starts again.
func (h *host) quit() error {
	h.mu.Lock()
	etcd, old := h.etcd, h.users
	h.mu.Unlock()
	if err := h.renew(); err != nil {
		return err
	}
	if err := etcd.Close(); err != nil {
		return fmt.Errorf("close an etcd client: %w", err)
	}
	for _, u := range old {
		_ = u.close(h.run.ctx) // returns at once, with an error that says that the client was closed
	}
	return nil
}
