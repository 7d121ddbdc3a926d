// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// Whose doing it is that a key is gone, as far as can be known. The grants are young, so that no watch tells.
func TestRelease_TellsAForeignDeletionWheneverItCanBeKnown(t *testing.T) {
	for name, c := range map[string]struct {
		hook    etcdfake.Hook // of the release's transaction
		foreign bool          // an operator has deleted the key
		want    error
	}{
		"held":                                    {etcdfake.Delay(0), false, nil},
		"held, and the answer is lost":            {etcdfake.KeepAnswer(), false, nil},
		"held, and the request is lost":           {etcdfake.LoseRequest(), false, nil},
		"deleted by an operator":                  {etcdfake.Delay(0), true, ErrRevoked},
		"deleted by an operator, one try unknown": {etcdfake.LoseRequest(), true, nil}, // it could have been ours
		"repeated by a proxy, as documented":      {etcdfake.Repeat(2), false, ErrRevoked},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				s := r.open(Config{})
				g := r.lock(s, "a")
				if c.foreign {
					r.must(second(r.cluster.Delete(g.Key())))
				}
				r.cluster.Hook(txnOnce(c.hook))
				if err := g.Release(r.Context()); !errors.Is(err, c.want) {
					r.Errorf("Release: %v, want %v", err, c.want)
				}
				if left := r.cluster.Keys(""); len(left) != 0 {
					r.Errorf("keys left: %v", left)
				}
			})
		})
	}
}

// A transaction that etcd has refused has deleted nothing: a release that shared it, and finds nothing when it is sent again,
// knows that somebody else was first.
func TestRelease_ARefusedTryIsNoDoubt(t *testing.T) {
	asUser(t, time.Minute, func(r *rig) {
		s, foreign := r.open(Config{}), r.open(Config{Prefix: "others/"})
		r.delay(10*time.Millisecond, 10*time.Millisecond)
		g := r.lock(s, "a")
		r.must(second(r.cluster.Delete(g.Key())))
		refused := 0
		r.cluster.Hook(etcdfake.On("KV/Txn", func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
			resp, err := next(ctx)
			if errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
				refused++
			}
			return resp, err
		}))
		results := make(chan error, 3)
		go func() { results <- second(s.Lock(r.Context(), "b")) }() // what is submitted while it is under way shares the next one
		r.quiet()
		go func() { results <- second(foreign.Lock(r.Context(), "a")) }()
		r.quiet()
		go func() { results <- g.Release(r.Context()) }()
		r.must(r.result("the first", results))
		var gone, denied bool
		for range 2 {
			err := r.result("the others", results)
			gone = gone || errors.Is(err, ErrRevoked)
			denied = denied || errors.Is(err, rpctypes.ErrPermissionDenied)
		}
		if !gone || !denied {
			r.Errorf("the release was told of the deletion: %v, the lock of its refusal: %v", gone, denied)
		}
		if refused < 2 {
			r.Errorf("%d transactions were refused, want the shared one and the lock's", refused)
		}
	})
}

// A lease that has run out meanwhile takes the key along. That is no doing of an operator's, though nobody had noticed the end of
// the session before the answer came.
func TestRelease_BehindTheEndOfTheLeaseTellsThatItHasExpired(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		r.cluster.Hook(txnOnce(func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
			s.expiry.Store(int64(s.clk.Now())) // as after a sleep of the machine, in which the keeper slept too
			if _, err := r.cluster.Revoke(s.id); err != nil {
				return nil, err
			}
			return next(ctx)
		}))
		if err := g.Release(r.Context()); !errors.Is(err, ErrExpired) {
			r.Errorf("Release: %v, want %v", err, ErrExpired)
		}
	})
}

// A leadership that is resigned from under another grant was not lost because that one was.
func TestLeadership_ResignTellsTheEndOfItsContextFromALoss(t *testing.T) {
	for _, other := range []error{ErrReleased, ErrExpired, ErrRevoked, ErrRolledBack, ErrClosed} {
		bubble(t, etcdfake.Options{}, func(r *rig) {
			s := r.open(Config{})
			l, err := s.Election("name").Campaign(r.Context(), "value")
			r.must(err)
			ctx, cancel := context.WithCancelCause(r.Context())
			cancel(other)
			if err := l.Resign(ctx); errors.Is(err, ErrNotLeader) || !errors.Is(err, context.Canceled) || !errors.Is(err, other) {
				r.Errorf("Resign with a context that ended with %v: %v", other, err)
			}
			r.quiet()
			if err := l.Resign(r.Context()); !errors.Is(err, ErrNotLeader) || !errors.Is(err, ErrReleased) ||
				!errors.Is(other, ErrReleased) && errors.Is(err, other) {
				r.Errorf("Resign again: %v", err)
			}
		})
	}
}
