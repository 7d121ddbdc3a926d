// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// After the end of a leadership, every Proclaim and every Resign says so, and why.
func TestLeadership_AfterTheEndItIsAlwaysNotLeader(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for name, c := range map[string]struct {
		end    func(*leasehold.Leadership, *leaseholdtest.Client) error
		reason error
	}{
		"resigned": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error { return l.Resign(within(h.t)) }, leasehold.ErrReleased},
		"expired": {func(_ *leasehold.Leadership, cl *leaseholdtest.Client) error {
			cl.Blackhole(leaseholdtest.Both)
			return nil
		}, leasehold.ErrExpired},
		"revoked": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error {
			return h.RevokeLease(within(h.t), l.Session().Lease())
		}, leasehold.ErrRevoked},
		"deleted": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error { return h.Delete(within(h.t), l.Key()) }, leasehold.ErrRevoked},
		"overwritten": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error {
			return h.Overwrite(within(h.t), l.Key(), "x")
		}, leasehold.ErrRevoked},
		"closed": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error { return l.Session().Close(within(h.t)) }, leasehold.ErrClosed},
		"abandoned": {func(l *leasehold.Leadership, _ *leaseholdtest.Client) error {
			l.Session().Abandon()
			return nil
		}, leasehold.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			term := 20 * time.Second // an abandoned lease stays that long
			if errors.Is(c.reason, leasehold.ErrExpired) {
				term = 4 * time.Second
			}
			s, cl := h.standing(term)
			l := h.campaign(s.Election("of "+name), "leader")
			if err := l.Proclaim(within(h.t), "proclaimed"); err != nil {
				t.Fatal(err)
			}
			if err := c.end(l, cl); err != nil {
				t.Fatal(err)
			}
			await(t, "the leadership ends", l.Done())
			for range 2 {
				wantErr(h.t, "Proclaim", l.Proclaim(within(h.t), "too late"), leasehold.ErrNotLeader, c.reason)
			}
			for range 2 {
				wantErr(h.t, "Resign", l.Resign(within(h.t)), leasehold.ErrNotLeader, c.reason)
				wantErr(h.t, "Proclaim", l.Proclaim(within(h.t), "too late"), leasehold.ErrNotLeader, c.reason)
			}
			cl.Heal()
		})
	}
}

// A Resign that finds the key gone, before anybody else has noticed, has not held the leadership until then.
func TestLeadership_ResignOfAKeyThatIsGoneIsNotLeader(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	probe := newProbe()
	s := h.session(probe.client(h.scene), time.Minute)
	for range 20 { // the watch that would tell starts later
		l := h.campaign(s.Election("name"), "leader")
		if err := h.Delete(within(h.t), l.Key()); err != nil {
			t.Fatal(err)
		}
		// On a slow machine the deletion is sent twice, and whether it was the first that found the key cannot be told.
		before := probe.called()[txnMethod]
		if err := l.Resign(within(h.t)); err != nil || probe.called()[txnMethod] < before+2 {
			wantErr(h.t, "Resign", err, leasehold.ErrNotLeader, leasehold.ErrRevoked)
		}
		l = h.campaign(s.Election("name"), "leader")
		if err := h.Delete(within(h.t), l.Key()); err != nil {
			t.Fatal(err)
		}
		wantErr(h.t, "Proclaim", l.Proclaim(within(h.t), "x"), leasehold.ErrNotLeader, leasehold.ErrRevoked)
		if l.Valid() {
			t.Error("valid although its Proclaim has found the key gone")
		}
		wantErr(h.t, "Resign", l.Resign(within(h.t)), leasehold.ErrNotLeader, leasehold.ErrRevoked)
	}
}

func TestLeadership_ProclaimKeepsTokenAndLease(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, _ := h.standing(time.Minute)
	e := s.Election("name")
	l := h.campaign(e, "0")
	for i := 1; i <= 20; i++ {
		value := fmt.Sprint(i)
		if err := l.Proclaim(within(h.t), value); err != nil {
			t.Fatal(err)
		}
		got, err := e.Leader(within(h.t))
		if err != nil || got.Value != value || got.Token != l.Token() || got.Lease != s.Lease() || got.Key != l.Key() {
			t.Fatalf("after Proclaim(%s) the leader is %+v, %v", value, got, err)
		}
		wantErr(h.t, "Proclaim with an ended context", l.Proclaim(ended(t), "never"), context.Canceled)
	}
	time.Sleep(1500 * time.Millisecond) // old enough to be watched: its own proclamations must not count as an overwriting
	for i := range 20 {
		if err := l.Proclaim(within(h.t), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Resign(within(h.t)); err != nil {
		t.Fatal(err)
	}
}

// Resign with a context that has ended ends the belief at once; the key is deleted behind.
func TestLeadership_ResignIsNotForgotten(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, cl := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "leader")
	wantErr(h.t, "Resign", l.Resign(ended(t)), context.Canceled)
	if l.Valid() {
		t.Error("valid after Resign")
	}
	h.awaitLine("name", 0)

	l = h.campaign(s.Election("name"), "leader")
	cl.Link(h.Member(0)).Refuse()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	wantErr(h.t, "Resign without a network", l.Resign(ctx), context.DeadlineExceeded)
	wantErr(h.t, "Resign again", l.Resign(within(h.t)), leasehold.ErrNotLeader, leasehold.ErrReleased)
	h.awaitLine("name", 1)
	cl.Heal()
	h.awaitLine("name", 0)
}
