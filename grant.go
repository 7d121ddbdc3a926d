// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant is a lock that is held, or an election that is led, until it is released or lost. It ends once, for one reason:
// with its session, or alone when its key is deleted or overwritten by somebody else, or when it is released.
//
// All methods are safe for concurrent use.
type Grant struct {
	place *place
	since time.Time
	age   aged

	// ended is why the grant ended by itself, nil while it has not; the end of the session comes on top.
	ended atomic.Pointer[error]

	mu       sync.Mutex
	released bool            // Release was called
	ctx      context.Context // made when first asked for: most grants never are
	cancel   context.CancelCauseFunc
	watch    *watch // of the own key, once the grant is old enough
}

// grant makes the grant of a place that has come first, if all of R7 holds: the caller has seen the own key with its
// create revision and no older key; the session must be valid still.
func (p *place) grant() (*Grant, error) {
	s := p.session
	if !s.Valid() {
		return nil, s.Err()
	}
	g := &Grant{place: p, since: time.Now()}
	s.engine.vigil.add(g)
	return g, nil
}

// Name returns the name as it was given to Lock.
func (g *Grant) Name() string { return g.place.name }

// Key returns the grant's key in etcd, relative to the namespace of the etcd client if it has one.
func (g *Grant) Key() string { return g.place.key }

// Token returns the fencing token: the create revision of the key. It never changes (R8).
func (g *Grant) Token() Token { return g.place.token }

// String names the grant for people: its name and token.
func (g *Grant) String() string { return fmt.Sprintf("%q token %s", g.place.name, g.place.token) }

// GoString is String: the fields are not for looking at while the grant is in use.
func (g *Grant) GoString() string { return g.String() }

// Session returns the session that holds the grant.
func (g *Grant) Session() *Session { return g.place.session }

// Valid reports whether the grant is held and the session's local expiry lies ahead. Like [Session.Valid] it reads the
// clock at every call, takes no lock and does not allocate; and like there, the answer can be late by the time it
// is used: send the token along.
func (g *Grant) Valid() bool { return g.ended.Load() == nil && g.place.session.Valid() }

// Err returns nil while the grant is valid, and then why it ended: an error that matches [ErrReleased], [ErrExpired],
// [ErrRevoked], [ErrRolledBack] or [ErrClosed].
func (g *Grant) Err() error {
	if err := g.ended.Load(); err != nil {
		return *err
	}
	return g.place.session.Err()
}

// Remaining returns the time until the local expiry if no renewal is answered, and zero once the grant has ended.
func (g *Grant) Remaining() time.Duration {
	if g.ended.Load() != nil {
		return 0
	}
	return g.place.session.Remaining()
}

// Context returns a context that ends with the grant, at the local expiry at the latest even when nothing can be
// reached; [context.Cause] of it tells why. It carries the grant ([FromContext]), and of other values those of the etcd client's
// context. Use it for what is done under the grant; another Lock with it fails with this grant's end.
func (g *Grant) Context() context.Context {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ctx == nil {
		g.ctx, g.cancel = context.WithCancelCause(NewContext(g.place.session.ctx, g))
		if err := g.ended.Load(); err != nil {
			g.cancel(*err)
		}
	}
	return g.ctx
}

// Done returns a channel that is closed when the grant ends. It is Context().Done().
func (g *Grant) Done() <-chan struct{} { return g.Context().Done() }

// end ends the belief in the grant, once. The first reason counts, that of the session included.
func (g *Grant) end(reason error) bool {
	if err := g.place.session.Err(); err != nil {
		reason = err
	}
	if !g.ended.CompareAndSwap(nil, &reason) {
		return false
	}
	g.mu.Lock()
	cancel, watch := g.cancel, g.watch
	g.watch = nil
	g.mu.Unlock()
	if cancel != nil {
		cancel(reason)
	}
	e := g.place.session.engine
	e.vigil.remove(g)
	if watch != nil {
		e.watcher.stop(watch)
	}
	return true
}

// Cmp returns a comparison that is true in etcd while this very grant exists, for use in transactions of one's own:
// a write guarded by it is refused once the grant is gone.
func (g *Grant) Cmp() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(g.place.key), "=", int64(g.place.token))
}

// Release gives the grant back. The local validity ends first (R6), then the key is deleted, which costs one round trip.
//
// nil: the grant was held until now, and its key is known to be gone, by our own doing as far as can be known. A grant that was
// lost before: its key is cleaned up in the background, and the reason of the loss is returned. ctx ended first: its error; the
// deletion goes on in the background until the key is known to be gone or the session has ended. Called again: [ErrReleased].
//
// Whose doing it was is known from the answer that found the key, and whenever the request was sent once: then a key that
// was gone already is [ErrRevoked]. If the request was repeated because an answer was late or lost, a repetition that finds
// nothing cannot tell an earlier one of ours from somebody else's deletion in the same moment, and Release returns nil. A proxy on
// the way that repeats requests by itself, which etcd's client does not, can make it return ErrRevoked for a grant that was held.
func (g *Grant) Release(ctx context.Context) error {
	if _, err := g.release(ctx); err != nil {
		return fmt.Errorf("leasehold: release %q: %w", g.place.name, err)
	}
	return nil
}

// release reports whether the error is why the grant had ended before. An error of ctx is not, whatever it matches: its cause can be the
// end of another grant.
func (g *Grant) release(ctx context.Context) (lost bool, err error) {
	g.mu.Lock()
	again := g.released
	g.released = true
	g.mu.Unlock()
	if again {
		return true, ErrReleased
	}
	p := g.place
	if !g.end(ErrReleased) || !errors.Is(*g.ended.Load(), ErrReleased) {
		p.leave()
		return true, *g.ended.Load()
	}
	return p.deleteNow(ctx)
}

// deleteNow deletes the key of a grant that was held until now and waits for the answer.
func (p *place) deleteNow(ctx context.Context) (lost bool, err error) {
	behind, first := p.depart()
	if !first {
		return true, ErrReleased
	}
	e := p.session.engine
	settled := p.settled()
	type answer struct {
		held bool
		err  error
	}
	answers := make(chan answer, 1)
	defer p.session.unload() // a session that looks empty can be closed by its pool
	w := p.deletion(int64(p.token))
	w.handOver(behind)
	w.done = func(resp *clientv3.TxnResponse, err error) {
		behind.handedOver(resp)
		p.deleted(settled && err == nil && resp.Succeeded)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		// Not found although nobody said so: somebody else has deleted it, or an attempt of this very write whose outcome is not
		// known, or has come just behind this answer. In doubt it was our own: somebody else's deletion is told by the watch, and
		// to be so late is rare.
		answers <- answer{held: resp.Succeeded || !e.writes.failed(w)}
	}
	e.writes.submit(w)
	select {
	case a := <-answers:
		if a.err == nil && !a.held {
			if reason := p.session.Err(); reason != nil {
				return true, reason // the key went with its lease, whose end is the reason
			}
			return true, fmt.Errorf("%w before the release", ErrRevoked)
		}
		return isAny(a.err, ErrRolledBack, ErrClosed), a.err
	case <-p.session.Done():
		// The lease goes, and the key with it; that it is gone already is not known.
		select {
		case a := <-answers:
			if a.err == nil && a.held {
				return false, nil
			}
		default:
		}
		return true, p.session.Err()
	case <-ctx.Done():
		return false, ending(ctx)
	}
}

// opened: what happened to the key before its watch began is to be read.
func (g *Grant) opened() { g.place.session.engine.vigil.verify(g) }

// saw: somebody has deleted or overwritten the key (R10). Our own writes put our own value under our own lease.
func (g *Grant) saw(events []*mvccpb.Event) {
	for _, ev := range events {
		if ev.GetKv().GetModRevision() < int64(g.place.token) {
			continue // of an earlier use of the key, told by a member that lags
		}
		if ev.GetType() == mvccpb.Event_DELETE || !g.place.intact(ev.GetKv()) {
			g.taken()
			return
		}
	}
}

// taken ends a grant whose key is not there or not ours any more. What is left of it is deleted in the background, if
// the session is not retained: then it is deleted when the grant is released.
func (g *Grant) taken() {
	g.place.session.engine.keeper.hurry(g.place.session) // the whole lease may be gone
	if !g.end(fmt.Errorf("%w: key %s", ErrRevoked, g.place.key)) {
		return
	}
	g.place.forsake()
	if !g.place.session.retained.Load() {
		g.place.leave()
	}
}

var _ subscriber = (*Grant)(nil)

type grantKey struct{}

// NewContext returns a context that carries g, for the checks at resources (see the packages under fence/) to find its
// token without plumbing. [Grant.Context] is such a context, and [Session.Do], [Client.Do] and [Elector] give one to their functions.
func NewContext(ctx context.Context, g *Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// FromContext returns the grant that ctx carries.
func FromContext(ctx context.Context) (g *Grant, ok bool) {
	g, ok = ctx.Value(grantKey{}).(*Grant)
	return g, ok && g != nil
}
