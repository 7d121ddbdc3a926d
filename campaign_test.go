// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// A leader that is cut off has stopped believing, by its own clock, before the next one's Campaign returns.
func TestCampaign_TheOldLeaderIsInvalidBeforeTheNextLeads(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, cl := h.standing(4 * time.Second)
	other, _ := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "old")
	next := h.campaignAside(t.Context(), other.Election("name"), "next")
	h.awaitLine("name", 2)
	cl.Blackhole(leaseholdtest.Both)
	var valid time.Time // the last instant at which the old one was valid; the clock is read before
	for at := time.Now(); l.Valid(); at = time.Now() {
		valid = at
		time.Sleep(100 * time.Microsecond)
	}
	wantErr(t, "the old leadership", l.Err(), leasehold.ErrExpired)
	c := await(t, "the next leads", next)
	if c.err != nil {
		t.Fatal(c.err)
	}
	if !valid.Before(c.at) { // not: that it had to be waited for, because this goroutine may be late
		t.Errorf("the next has led for %v while the old one believed", valid.Sub(c.at))
	}
	if c.l.Token() <= l.Token() {
		t.Errorf("token %v after %v", c.l.Token(), l.Token())
	}
	cl.Heal()
	if err := c.l.Resign(within(t)); err != nil {
		t.Error(err)
	}
}

// The session of a candidate ends while it waits: it is told, and when the network is back it is not there to win.
func TestCampaign_FailsWithItsSessionAndIsGone(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, _ := h.standing(time.Minute)
	other, cl := h.standing(4 * time.Second)
	l := h.campaign(s.Election("name"), "leader")
	done := h.campaignAside(t.Context(), other.Election("name"), "candidate")
	h.awaitLine("name", 2)
	cl.Blackhole(leaseholdtest.Both)
	wantErr(t, "Campaign", await(t, "Campaign returns", done).err, leasehold.ErrExpired)
	cl.Heal()
	h.awaitLine("name", 1)
	if err := l.Resign(within(t)); err != nil {
		t.Error(err)
	}
	h.awaitLine("name", 0)
}

// The server is silent: Campaign returns with its context, and when the server can be heard again there is no candidate.
func TestCampaign_EndsWithItsContextWhenTheServerIsSilent(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, cl := h.standing(time.Minute)
	cl.Hold(leaseholdtest.Up)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	wantErr(t, "Campaign", await(t, "Campaign returns", h.campaignAside(ctx, s.Election("name"), "candidate")).err, context.DeadlineExceeded)
	cl.Heal() // what was held is delivered now
	if err := h.campaign(s.Election("other"), "x").Resign(within(t)); err != nil {
		t.Error(err)
	}
	h.awaitLine("name", 0)
}

// Connections break and the history is compacted while a candidate waits: it keeps its place, and wins in its turn.
func TestCampaign_KeepsItsPlaceThroughResetsAndCompaction(t *testing.T) {
	t.Parallel()
	h := ownHall(t, leaseholdtest.Options{})
	s, _ := h.standing(time.Minute)
	other, cl := h.standing(time.Minute)
	third, _ := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "leader")
	second := h.campaignAside(t.Context(), other.Election("name"), "second")
	place := h.awaitLine("name", 2)[1]
	last := h.campaignAside(t.Context(), third.Election("name"), "third")
	h.awaitLine("name", 3)
	for range 3 {
		for range 5 {
			if err := l.Proclaim(within(t), "history"); err != nil {
				t.Fatal(err)
			}
		}
		cl.Reset()
		if _, err := h.Compact(within(t)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err := l.Resign(within(t)); err != nil {
		t.Fatal(err)
	}
	c := await(t, "the second leads", second)
	if c.err != nil || c.l.Key() != place {
		t.Fatalf("%v, at %s, want %s", c.err, c.l.Key(), place)
	}
	if err := c.l.Resign(within(t)); err != nil {
		t.Error(err)
	}
	c = await(t, "the third leads", last)
	if c.err != nil {
		t.Fatal(c.err)
	}
	if err := c.l.Resign(within(t)); err != nil {
		t.Error(err)
	}
}
