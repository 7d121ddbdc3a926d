// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// A hall is a scene for elections.
type hall struct{ *scene }

// newHall makes a hall on a shared cluster: only its own clients' links may fail.
func newHall(t testing.TB) *hall {
	t.Helper()
	return &hall{solo.scene(t)}
}

// ownHall makes a hall on a cluster of its own.
func ownHall(t testing.TB, o leaseholdtest.Options) *hall {
	t.Helper()
	return &hall{stage(t, o)}
}

// standing opens a session on a client of its own.
func (h *hall) standing(ttl time.Duration) (*leasehold.Session, *leaseholdtest.Client) {
	h.t.Helper()
	cl := h.Client(h.t)
	return h.session(cl, ttl), cl
}

func (h *hall) campaign(e *leasehold.Election, value string) *leasehold.Leadership {
	h.t.Helper()
	l, err := e.Campaign(within(h.t), value)
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// A candidacy is what a Campaign in the background has returned.
type candidacy struct {
	l   *leasehold.Leadership
	err error
	at  time.Time // not before Campaign has returned
}

func (h *hall) campaignAside(ctx context.Context, e *leasehold.Election, value string) <-chan candidacy {
	done := make(chan candidacy, 1)
	go func() {
		l, err := e.Campaign(ctx, value)
		done <- candidacy{l, err, time.Now()}
	}()
	return done
}

func TestCampaign_CandidatesOfOneSessionAreSeparate(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, _ := h.standing(time.Minute)
	e := s.Election("name")
	first := h.campaign(e, "first")
	second := h.campaignAside(t.Context(), e, "second")
	h.awaitLine("name", 2)
	if l, err := e.Leader(within(h.t)); err != nil || l.Value != "first" || l.Token != first.Token() || l.Lease != s.Lease() {
		t.Errorf("the leader is %+v, %v", l, err)
	}
	if err := first.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
	c := await(t, "the second leads", second)
	if c.err != nil || c.l.Token() <= first.Token() || c.l.Key() == first.Key() {
		t.Fatalf("the second: %v, token %v after %v", c.err, c.l.Token(), first.Token())
	}
	if err := c.l.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
	if _, err := e.Leader(within(h.t)); !errors.Is(err, leasehold.ErrNoLeader) {
		t.Errorf("nobody leads, and Leader says %v", err)
	}
}

// The lease of a candidate is revoked while it waits: it is told at once, not when the leader goes, and never leads.
func TestCampaign_ACandidateWhoseLeaseGoesIsToldAtOnce(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, _ := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "leader")
	for name, take := range map[string]func(*leasehold.Session, string) error{
		"lease revoked": func(s *leasehold.Session, _ string) error { return h.RevokeLease(within(h.t), s.Lease()) },
		"key deleted":   func(_ *leasehold.Session, key string) error { return h.Delete(within(h.t), key) },
		"key put anew":  func(_ *leasehold.Session, key string) error { return h.Overwrite(within(h.t), key, "mine") },
	} {
		other, _ := h.standing(60 * time.Second)
		done := h.campaignAside(t.Context(), other.Election("name"), "candidate")
		keys := h.awaitLine("name", 2)
		key := keys[0]
		if key == l.Key() {
			key = keys[1]
		}
		if err := take(other, key); err != nil {
			t.Fatal(err)
		}
		c := await(t, name+": the candidate is told", done)
		wantErr(h.t, name, c.err, leasehold.ErrRevoked)
		if !l.Valid() {
			t.Fatalf("the leader has lost its place: %v", l.Err())
		}
		h.awaitLine("name", 1)
	}
	if err := l.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
	h.awaitLine("name", 0)
}

// A campaign that has failed leaves nobody in line who could win later, although its session lives on.
func TestCampaign_AFailedCandidateCannotWinLater(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, _ := h.standing(time.Minute)
	other, cl := h.standing(time.Minute)
	e := other.Election("name")

	l := h.campaign(s.Election("name"), "leader")
	ctx, cancel := context.WithCancel(t.Context())
	waiting := h.campaignAside(ctx, e, "gives up waiting")
	h.awaitLine("name", 2)
	cancel()
	wantErr(h.t, "cancelled while it waits", await(t, "Campaign returns", waiting).err, context.Canceled)
	h.awaitLine("name", 1)

	// What was under way is answered before answers are held: else the campaign would not even be sent.
	if err := h.campaign(other.Election("another"), "x").Resign(within(t)); err != nil {
		t.Error(err)
	}
	cl.Hold(leaseholdtest.Down)
	ctx, cancel = context.WithCancel(t.Context())
	lost := h.campaignAside(ctx, e, "its answer is held")
	h.awaitLine("name", 2)
	cancel()
	wantErr(h.t, "cancelled without an answer", await(t, "Campaign returns", lost).err, context.Canceled)
	cl.Release(leaseholdtest.Down)
	h.awaitLine("name", 1)
	if !other.Valid() {
		t.Fatalf("the session has not survived: %v", other.Err())
	}
	if err := l.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
	h.awaitLine("name", 0)
	if err := h.campaign(e, "wins now").Resign(within(h.t)); err != nil {
		t.Error(err)
	}
}

// The line is the one of etcd's own elections, both ways, and the values are plain.
func TestElection_StandsInLineWithEtcdsOwn(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	s, cl := h.standing(time.Minute)
	cs, err := concurrency.NewSession(h.DirectClient(t), concurrency.WithTTL(5))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cs.Close() }()
	theirs := concurrency.NewElection(cs, h.prefix+"name")
	if err := theirs.Campaign(within(h.t), "theirs"); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Election("name").Leader(within(h.t)); err != nil || l.Value != "theirs" {
		t.Errorf("our Leader says %+v, %v", l, err)
	}
	ours := h.campaignAside(t.Context(), s.Election("name"), "ours")
	h.awaitLine("name", 2)
	if err := theirs.Resign(within(h.t)); err != nil {
		t.Fatal(err)
	}
	c := await(t, "ours leads", ours)
	if c.err != nil {
		t.Fatal(c.err)
	}
	again := make(chan error, 1)
	go func() { again <- theirs.Campaign(within(h.t), "theirs again") }()
	h.awaitLine("name", 2)
	resp, err := concurrency.NewElection(cs, h.prefix+"name").Leader(within(h.t))
	if err != nil || string(resp.Kvs[0].Value) != "ours" || clientv3.LeaseID(resp.Kvs[0].Lease) != s.Lease() {
		t.Errorf("their Leader says %v, %v", resp, err)
	}
	_ = cl
	if err := c.l.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
	if err := await(t, "theirs leads again", again); err != nil {
		t.Error(err)
	}
	if err := theirs.Resign(within(h.t)); err != nil {
		t.Error(err)
	}
}
