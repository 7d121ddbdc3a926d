// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/leasehold"
)

// call does what a user does in a step. It returns when the user has finished.
func (r *run) call(s Step) {
	h := r.hosts[s.Host]
	u := h.user(s.User)
	name := nameOf(s.Name)
	switch s.Do {
	case Lock, Try, Do, Lead:
		r.acquire(u, s)
	case Observe:
		r.observe(u, s)
	case Ask:
		ctx, cancel := context.WithTimeout(r.ctx, s.Wait)
		defer cancel()
		if l, err := u.locker(ctx); err == nil {
			began := time.Now()
			_, err := l.Election(name).Leader(ctx)
			r.judge.returned("Leader", ctx, began)
			if !errors.Is(err, leasehold.ErrNoLeader) {
				r.refused(h, "Leader", err)
			}
		}
	case Close:
		ctx, cancel := context.WithTimeout(r.ctx, s.Wait)
		defer cancel()
		r.closed(h, "Close", u.close(ctx))
	case Abandon:
		if _, session := h.user(1).take(); session != nil {
			session.Abandon()
			if session.Valid() || !errors.Is(session.Err(), leasehold.ErrClosed) && !ended(session.Err()) {
				r.judge.violation("abandon", "valid %v, error %v", session.Valid(), session.Err())
			}
		}
	case Quit:
		if err := h.quit(); err != nil {
			r.judge.violation("quit", "%v", err)
		}
	}
}

func nameOf(i int) string { return fmt.Sprintf("n%d", i) }

// acquire locks or campaigns, holds, and gives back.
func (r *run) acquire(u *user, s Step) {
	ctx, cancel := context.WithTimeout(r.ctx, s.Wait)
	defer cancel()
	l, err := u.locker(ctx)
	if err != nil {
		r.refused(u.host, "open", err)
		return
	}
	name := nameOf(s.Name)
	began := time.Now()
	switch s.Do {
	case Lock:
		g, err := l.Lock(ctx, name)
		r.judge.returned("Lock", ctx, began)
		if err != nil {
			r.refused(u.host, "Lock", err)
			return
		}
		r.hold(u, s, g, g.Release)
	case Try:
		g, err := l.TryLock(ctx, name)
		r.judge.returned("TryLock", ctx, began)
		if locked, ok := errors.AsType[*leasehold.LockedError](err); ok {
			r.judge.locked(s.Name, locked, began)
			return
		}
		if err != nil {
			r.refused(u.host, "TryLock", err)
			return
		}
		r.hold(u, s, g, g.Release)
	case Do:
		err := l.Do(ctx, name, func(ctx context.Context, g *leasehold.Grant) error {
			r.judge.granted(u, s.Name, g)
			r.stay(s, g, ctx.Done())
			return nil
		})
		r.refused(u.host, "Do", err)
	case Lead:
		led, err := l.Election(name).Campaign(ctx, fmt.Sprintf("h%d at %v", u.host.number, s.At))
		r.judge.returned("Campaign", ctx, began)
		if err != nil {
			r.refused(u.host, "Campaign", err)
			return
		}
		r.judge.granted(u, s.Name, led.Grant)
		r.stay(Step{For: s.For / 2}, led.Grant, nil)
		pctx, cancel := context.WithTimeout(r.ctx, s.Wait)
		defer cancel()
		began := time.Now()
		err = led.Proclaim(pctx, "again")
		r.judge.returned("Proclaim", pctx, began)
		r.refused(u.host, "Proclaim", err)
		r.stay(Step{For: s.For / 2}, led.Grant, nil)
		r.giveBack(u, led.Grant, led.Resign)
	}
}

func (r *run) hold(u *user, s Step, g *leasehold.Grant, release func(context.Context) error) {
	r.judge.granted(u, s.Name, g)
	r.stay(s, g, nil)
	r.giveBack(u, g, release)
}

// stay holds the grant for a while, unless it is lost before.
func (r *run) stay(s Step, g *leasehold.Grant, also <-chan struct{}) {
	t := time.NewTimer(s.For)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.Done():
	case <-also:
	case <-r.stopping:
	}
}

// releaseTime bounds a Release.
const releaseTime = 3 * time.Second

func (r *run) giveBack(u *user, g *leasehold.Grant, release func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.ctx, releaseTime)
	defer cancel()
	began := time.Now()
	err := release(ctx)
	r.judge.returned("Release", ctx, began)
	r.judge.released(g, err)
	if err != nil {
		r.refused(u.host, "Release", err)
	}
}

// observe follows an election for a while: what it is told must never be older than what it was told before.
func (r *run) observe(u *user, s Step) {
	ctx, cancel := context.WithTimeout(r.ctx, s.For)
	defer cancel()
	l, err := u.locker(ctx)
	if err != nil {
		r.refused(u.host, "open", err)
		return
	}
	last := leasehold.Leader{}
	began := time.Now()
	for leader, err := range l.Election(nameOf(s.Name)).Observe(ctx) {
		if err != nil {
			r.refused(u.host, "Observe", err)
			break
		}
		if leader.Token == 0 {
			continue
		}
		if r.judge.epoch() > 0 {
			continue // the cluster went back in time, and what was on its way from before is told after
		}
		if leader.Token < last.Token || leader.Token == last.Token && leader.Revision < last.Revision {
			r.judge.violation("observe", "%+v after %+v", leader, last)
		}
		last = leader
	}
	r.judge.returned("Observe", ctx, began)
}

// ended reports whether err is a reason for which a session or grant can end.
func ended(err error) bool {
	for _, reason := range []error{leasehold.ErrExpired, leasehold.ErrRevoked, leasehold.ErrRolledBack, leasehold.ErrClosed, leasehold.ErrReleased} {
		if errors.Is(err, reason) {
			return true
		}
	}
	return false
}

// refused looks at an error: there are few that a caller may get.
func (r *run) refused(h *host, what string, err error) {
	r.judge.noteError(h, what, err)
	switch {
	case err == nil, ended(err), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
	case errors.Is(err, rpctypes.ErrNoSpace) && r.used[NoSpace]:
	default:
		r.judge.violation("error", "%s on host %d: %v", what, h.number, err)
	}
	back := r.used[RollBack] || r.used[Replace]
	// The second of two equal deletions finds nothing, and its answer is the only one that anybody sees.
	taken := back || r.used[Delete] || r.used[Overwrite] || r.used[Revoke] || r.used[Twice] && (what == "Release" || what == "Do")
	if errors.Is(err, leasehold.ErrRolledBack) && !back || errors.Is(err, leasehold.ErrRevoked) && !taken {
		r.judge.violation("false alarm", "%s on host %d: %v", what, h.number, err)
	}
}

// closed looks at an error of Close, which may be late, or give up on the revocation when the lease must have run out, or find that
// the etcd client is closed.
func (r *run) closed(h *host, what string, err error) {
	switch {
	case err == nil, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, leasehold.ErrClosed):
	case status.Code(err) == codes.Unavailable:
	default:
		r.judge.violation("error", "%s on host %d: %v", what, h.number, err)
	}
}
