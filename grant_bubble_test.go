// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/etcdfake"
)

// R8: the keys of one name are used again, their tokens never.
func TestGrant_TokensRiseThoughKeysAreUsedAgain(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		last, keys := Token(0), make(map[string]bool)
		for range 50 {
			g := r.lock(s, "a")
			if g.Token() <= last {
				r.Fatalf("token %v after %v", g.Token(), last)
			}
			last = g.Token()
			keys[g.Key()] = true
			r.must(g.Release(r.Context()))
		}
		if len(keys) > 2 {
			r.Errorf("%d different keys for a name that one goroutine locks", len(keys))
		}
	})
}

// R8: a key is used again only when no attempt to put it can be applied any more: otherwise the late attempt of one acquisition would
// be taken for the next.
func TestGrant_AKeyWithAnUnsettledAttemptIsNotUsedAgain(t *testing.T) {
	for name, hook := range map[string]etcdfake.Hook{
		"answer kept": etcdfake.KeepAnswer(),
		"late":        etcdfake.Delay(20 * time.Second),
		"lost":        etcdfake.LoseAnswer(),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				s := r.open(Config{})
				r.cluster.Hook(txnOnce(hook))
				first := r.lock(s, "a")
				r.must(first.Release(r.Context()))
				time.Sleep(5 * time.Second)
				later := r.lock(s, "a")
				if first.Key() == later.Key() {
					r.Errorf("key %s was used again", first.Key())
				}
				time.Sleep(time.Minute)
				if !later.Valid() {
					r.Errorf("the later grant: %v", later.Err())
				}
				if keys := r.cluster.Keys(""); len(keys) != 1 || string(keys[0].Key) != later.Key() {
					r.Errorf("keys %v, want the later grant's", keys)
				}
			})
		})
	}
}

// R9: a late attempt puts the key of a released grant again, and the janitor removes it. By the time that it looks again, the key can be that of
// the next grant: it has no business with that one.
func TestGrant_TheJanitorLeavesTheNextGrantOfAKeyAlone(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		r.cluster.Hook(txnOnce(etcdfake.Delay(3 * time.Second)))
		first := r.lock(s, "a")
		r.must(first.Release(r.Context()))
		r.wait("the key to be free again", func() bool {
			return s.slots.at(first.place.dir, first.place.slot) == nil
		})
		next := r.lock(s, "a")
		if next.Key() != first.Key() {
			r.Fatal("the key was not used again")
		}
		time.Sleep(time.Minute)
		if !next.Valid() {
			r.Errorf("the next grant: %v", next.Err())
		}
	})
}

// R9: an operator deletes the key of a young grant, and a late attempt to acquire puts it again before the holder is told: with another
// create revision, which no deletion by the grant's own revision finds.
func TestGrant_TakenAwayAndPutAgainByALateAttemptLeavesNoGhost(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		start := time.Now()
		r.cluster.Hook(txnOnce(etcdfake.Delay(700 * time.Millisecond)))
		g := r.lock(s, "a")
		time.Sleep(time.Until(start.Add(600 * time.Millisecond)))
		r.must(second(r.cluster.Delete(g.Key())))
		time.Sleep(150 * time.Millisecond)
		if keys := r.cluster.Keys(""); len(keys) != 1 || Token(keys[0].CreateRevision) == g.Token() {
			r.Fatalf("keys %v: the late attempt has not put the key again", keys)
		}
		r.ended("the grant", g.Done(), 3*time.Second)
		time.Sleep(s.TTL())
		if keys := r.cluster.Keys(""); len(keys) != 0 {
			r.Errorf("the late attempt blocks the name: %v", keys)
		}
		r.must(r.lock(s, "a").Release(r.Context()))
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
	})
}

// The guard is true for this very grant, not for a later one with the same key.
func TestGrant_CmpIsTrueForThisGrantAlone(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		guarded := func(g *Grant) bool {
			resp, err := r.client.Txn(r.Context()).If(g.Cmp()).Then(clientv3.OpPut("data", g.Token().String())).Commit()
			r.must(err)
			return resp.Succeeded
		}
		first := r.lock(s, "a")
		if !guarded(first) {
			r.Error("refused while it was held")
		}
		r.must(first.Release(r.Context()))
		if guarded(first) {
			r.Error("passed after the release")
		}
		later := r.lock(s, "a")
		if first.Key() != later.Key() {
			r.Fatal("the key was not used again, so there is nothing to mistake")
		}
		if guarded(first) || !guarded(later) {
			r.Error("the guard does not tell two grants of one key apart")
		}
		r.must(second(r.cluster.Delete(later.Key())))
		r.must(second(r.cluster.Put(later.Key(), s.cfg.Holder, s.Lease())))
		if guarded(later) {
			r.Error("passed for a key that was deleted and made again")
		}
	})
}

// R13: a transaction under a grant that is held up on its way does not run when it arrives after the grant has gone, whoever holds
// the name by then; and its holder is told.
func TestGrantTxn_ThatArrivesAfterTheGrantDoesNotRun(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		g := r.lock(r.open(Config{TTL: 6 * time.Second}), "a")
		other := r.another()
		next := make(chan *Grant, 1)
		go func() { next <- other.lock(other.open(Config{TTL: time.Minute}), "a") }()
		time.Sleep(2 * time.Second)
		r.must(second(g.Txn(r.Context()).Then(clientv3.OpPut("data", "in time")).Commit()))
		r.cluster.Hook(txnOnce(etcdfake.Delay(10 * time.Second)))
		got := make(chan error, 1)
		go func() { got <- second(g.Txn(r.Context()).Then(clientv3.OpPut("data", "late")).Commit()) }()
		r.quiet()
		r.must(second(r.cluster.Delete(g.Key())))
		later := <-next
		r.must(second(later.Txn(r.Context()).Then(clientv3.OpPut("data", "of the next")).Commit()))
		if err := r.result("the late transaction", got); !errors.Is(err, ErrRevoked) {
			r.Errorf("the late transaction: %v, want ErrRevoked", err)
		}
		if data := r.cluster.Keys("data"); len(data) != 1 || string(data[0].Value) != "of the next" {
			r.Errorf("data %v", data)
		}
	})
}

// R8: what a leader proclaims does not change its token, and is no reason to be told of a loss.
func TestLeadership_ProclaimKeepsTheTokenAndTheGrant(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.delay(5*time.Millisecond, 5*time.Millisecond)
		e := r.open(Config{}).Election("e")
		l, err := e.Campaign(r.Context(), "0")
		r.must(err)
		token := l.Token()
		time.Sleep(2 * time.Second) // under watch
		for i, hook := range []etcdfake.Hook{nil, etcdfake.LoseAnswer(), etcdfake.Repeat(2), etcdfake.Delay(time.Second), nil} {
			if hook != nil {
				r.cluster.Hook(txnOnce(hook))
			}
			r.must(l.Proclaim(r.Context(), string(rune('1'+i))))
		}
		time.Sleep(10 * time.Second)
		now, err := e.Leader(r.Context())
		r.must(err)
		if now.Value != "5" || now.Token != token || l.Token() != token || !l.Valid() {
			r.Errorf("leader %+v, token %v before and %v now, err %v", now, token, l.Token(), l.Err())
		}
	})
}

// R9: an attempt to acquire that comes late finds the key there and leaves it alone, with what was proclaimed since.
func TestLeadership_ALateAttemptToAcquireOverwritesNothing(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.cluster.Hook(txnOnce(etcdfake.Delay(5 * time.Second)))
		e := r.open(Config{}).Election("e")
		l, err := e.Campaign(r.Context(), "first")
		r.must(err)
		r.must(l.Proclaim(r.Context(), "second"))
		time.Sleep(10 * time.Second)
		now, err := e.Leader(r.Context())
		r.must(err)
		if now.Value != "second" || now.Token != l.Token() || !l.Valid() {
			r.Errorf("leader %+v, token %v, err %v", now, l.Token(), l.Err())
		}
	})
}

// R6, R9: a release into silence ends the belief at once, returns with its context, and goes on behind.
func TestRelease_IntoSilenceGoesOnBehind(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{TTL: time.Minute})
		g := r.lock(s, "a")
		r.hold(true, true)
		if err := g.Release(r.within(2 * time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("Release: %v", err)
		}
		if g.Valid() || !errors.Is(g.Err(), ErrReleased) {
			r.Errorf("after it: valid %v, %v", g.Valid(), g.Err())
		}
		if err := g.Release(r.Context()); !errors.Is(err, ErrReleased) {
			r.Errorf("released again: %v", err)
		}
		time.Sleep(10 * time.Second)
		r.release(true, true)
		time.Sleep(3 * time.Second)
		if keys := r.cluster.Keys(""); len(keys) != 0 || !s.Valid() {
			r.Errorf("3s after the way was free: keys %v, session %v", keys, s.Err())
		}
	})
}

// Scenario 15: also with a context that has ended before.
func TestRelease_WithAnEndedContextStillFreesTheName(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		g := r.lock(s, "a")
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		if err := g.Release(ended); err != nil && !errors.Is(err, context.Canceled) {
			r.Errorf("Release: %v", err)
		}
		r.quiet()
		if g.Valid() || len(r.cluster.Keys("")) != 0 {
			r.Errorf("valid %v, keys %v", g.Valid(), r.cluster.Keys(""))
		}
	})
}

// Scenario 13: a TryLock of a name that is taken leaves nothing and disturbs nobody, whatever becomes of its request.
func TestTryLock_LeavesNothingBehind(t *testing.T) {
	for name, hook := range map[string]etcdfake.Hook{
		"answered":      nil,
		"answer lost":   etcdfake.LoseAnswer(),
		"answer kept":   etcdfake.KeepAnswer(),
		"applied twice": etcdfake.Repeat(2),
		"late":          etcdfake.Delay(2 * time.Second), // when the name is free
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				other := r.another()
				holder := other.lock(other.open(Config{}), "a")
				s := r.open(Config{})
				if hook != nil {
					r.cluster.Hook(txnOnce(hook))
				}
				_, err := s.TryLock(r.Context(), "a")
				locked, ok := errors.AsType[*LockedError](err)
				if !ok || locked.Token != holder.Token() || !errors.Is(err, ErrLocked) {
					r.Errorf("TryLock: %v, want a LockedError with token %v", err, holder.Token())
				}
				time.Sleep(time.Second)
				if keys := r.cluster.Keys(""); len(keys) != 1 || !holder.Valid() {
					r.Errorf("keys %v, holder %v", keys, holder.Err())
				}
				r.must(holder.Release(r.Context()))
				time.Sleep(20 * time.Second)
				if keys := r.cluster.Keys(""); len(keys) != 0 {
					r.Errorf("left: %v", keys)
				}
			})
		})
	}
}

// Scenario 16: Close into silence returns with its context; the lease is revoked when the way is free.
func TestClose_IntoSilenceGoesOnBehind(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{TTL: time.Minute})
		g := r.lock(s, "a")
		r.hold(true, true)
		if err := s.Close(r.within(2 * time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("Close: %v", err)
		}
		if s.Valid() || g.Valid() || !errors.Is(g.Err(), ErrClosed) {
			r.Errorf("after it: %v, %v", s.Err(), g.Err())
		}
		time.Sleep(10 * time.Second)
		r.release(true, true)
		time.Sleep(5 * time.Second)
		if leases := r.cluster.Leases(); len(leases) != 0 {
			r.Errorf("5s after the way was free: leases %x", leases)
		}
		r.must(s.Close(r.Context()))
	})
}

// Abandon sends nothing: the lease runs out by itself, and is not renewed meanwhile.
func TestAbandon_SendsNothing(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		other := r.open(Config{}) // so that the stream stays
		g := r.lock(s, "a")
		time.Sleep(30 * time.Second)
		renewals := len(r.renewals(s))
		txns := r.calls("KV/Txn")
		revokes := r.calls("Lease/LeaseRevoke")
		expires, _ := r.cluster.LeaseExpiry(s.Lease())
		s.Abandon()
		if g.Valid() || !errors.Is(g.Err(), ErrClosed) {
			r.Errorf("grant: %v", g.Err())
		}
		time.Sleep(time.Until(expires) - 1)
		if len(r.cluster.Keys("")) != 1 {
			r.Error("the key went before the lease ran out")
		}
		time.Sleep(time.Minute)
		if n := len(r.renewals(s)); n != renewals || txns() != 0 || revokes() != 0 {
			r.Errorf("%d renewals, %d transactions, %d revocations after Abandon", n-renewals, txns(), revokes())
		}
		if !other.Valid() || len(r.cluster.Leases()) != 1 {
			r.Errorf("other session: %v, leases %x", other.Err(), r.cluster.Leases())
		}
	})
}

// Scenario 20: a lease whose grant is answered when nobody waits for it is nobody's, and goes.
func TestNewSession_ALateGrantIsRevoked(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		keep := r.open(Config{})
		r.cluster.Hook(etcdfake.On("Lease/LeaseGrant", etcdfake.DelayAnswer(600*time.Millisecond)))
		if err := second(NewSession(r.within(500*time.Millisecond), r.client, Config{TTL: time.Minute})); !errors.Is(err, context.DeadlineExceeded) {
			r.Errorf("NewSession: %v", err)
		}
		time.Sleep(3 * time.Second)
		if leases := r.cluster.Leases(); len(leases) != 1 || leases[0] != keep.Lease() {
			r.Errorf("leases %x", leases)
		}
	})
}
