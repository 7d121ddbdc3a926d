// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// heldUntil is the holder's formula, written a second time: the expiry that follows from a send instant and a granted
// term under the default drift bound and margin.
func heldUntil(sent time.Time, granted time.Duration) time.Time {
	const rho = 1e-3
	return sent.Add(time.Duration(float64(granted)*(1-rho)/(1+rho)) - 100*time.Millisecond)
}

// believed is a lower bound of the grant's local expiry, exact but for how long the calling goroutine stood still: the
// clock is read before the time that remains.
func believed(g *leasehold.Grant) (until time.Time, valid bool) {
	now := time.Now()
	left := g.Remaining()
	return now.Add(left), left > 0
}

func TestSession_FirstExpiryCountsFromTheGrantsSend(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	const ttl, late = 5 * time.Second, time.Second
	cl := sc.Client(t)
	if _, err := cl.Get(within(t), "x"); err != nil { // connects
		t.Fatal(err)
	}
	cl.Link(sc.Member(0)).Delay(leaseholdtest.Down, late, 0)
	before := time.Now()
	s := sc.session(cl, ttl)
	after := time.Now()
	cl.Heal()
	left := s.Remaining()
	read := time.Now() // the time left was read between the two
	if s.TTL() != ttl {
		t.Errorf("TTL %v, want %v", s.TTL(), ttl)
	}
	// The answer was on its way for a second, so the request was sent a second before it came.
	if most := heldUntil(after.Add(-late), ttl); after.Add(left).After(most) && left > 0 {
		t.Errorf("expires %v too late: not counted from the send", after.Add(left).Sub(most))
	}
	if least := heldUntil(before, ttl); read.Add(left).Before(least) && read.Before(least) {
		t.Errorf("expires %v before a grant that was sent at once would", least.Sub(read.Add(left)))
	}
}

func TestSession_TheGrantedTermCounts(t *testing.T) {
	t.Parallel()
	// An election timeout of a second makes 2 s the smallest term.
	sc := stage(t, leaseholdtest.Options{Heartbeat: 100 * time.Millisecond, Election: time.Second})
	before := time.Now()
	s := sc.newSession(time.Second)
	if s.TTL() != 2*time.Second {
		t.Fatalf("TTL %v, want what the server grants: 2s", s.TTL())
	}
	left := s.Remaining()
	now := time.Now()
	if least := heldUntil(before, 2*time.Second); left > 0 && now.Add(left).Before(least) {
		t.Errorf("%v remain of a granted term of 2s, after %v", left, now.Sub(before))
	}
}

// A renewal's answer is held in the network for most of the term, across a stream that was opened anew meanwhile. It
// extends the belief, but only by what its own send instant allows.
func TestSession_LateAnswersCountFromTheirSend(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	const ttl = 9 * time.Second
	probe := newProbe()
	cl := probe.client(sc)
	link := cl.Link(sc.Member(0))
	s := sc.session(cl, ttl)
	g := mustLock(t, s, "name")
	awaitExtension(t, g) // what the opening sends is over
	defer cl.Heal()

	link.Hold(leaseholdtest.Down)
	before, _ := believed(g)
	held := link.Stats().Held[1]
	probe.awaitRenewal(t, s.Lease())
	leaseholdtest.Eventually(t, step, "the answer is held", func() bool { return link.Stats().Held[1] > held })
	streams := probe.called()[keepaliveMethod]
	leaseholdtest.Eventually(t, step, "another stream is opened", func() bool { return probe.called()[keepaliveMethod] > streams })
	link.Blackhole(leaseholdtest.Up)
	sentBefore := time.Now() // nothing that is sent later reaches the server
	for s.Remaining() > ttl/4 {
		time.Sleep(time.Millisecond)
	}
	link.Release(leaseholdtest.Down)
	last := before
	for {
		until, valid := believed(g)
		if !valid {
			break
		}
		if until.After(last) {
			last = until
		}
		time.Sleep(time.Millisecond)
	}
	if most := heldUntil(sentBefore, ttl); last.After(most) {
		t.Errorf("believed %v longer than the last send allows", last.Sub(most))
	}
	if !last.After(before.Add(100 * time.Millisecond)) {
		t.Errorf("the late answers did not extend the belief: from %v to %v", before, last)
	}
	wantEnded(t, g, leasehold.ErrExpired)
}

// Answers that promise a full term arrive after the local expiry. They revive nothing: not the grant, not the session, and
// no renewal follows.
func TestSession_AnAnswerAfterTheExpiryRevivesNothing(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	const ttl = 4 * time.Second
	cl := sc.Client(t)
	link := cl.Link(sc.Member(0))
	s := sc.session(cl, ttl)
	g := mustLock(t, s, "name")
	link.Hold(leaseholdtest.Down)
	defer cl.Heal()
	held := link.Stats().Held[1]
	leaseholdtest.Eventually(t, step, "answers to renewals are held", func() bool { return link.Stats().Held[1] > held })
	await(t, "the session ends", s.Done())
	link.Release(leaseholdtest.Down)
	for deadline := time.Now().Add(ttl); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if s.Valid() || g.Valid() || s.Remaining() > 0 {
			t.Fatal("a lost session is valid again")
		}
	}
	wantErr(t, "Err", s.Err(), leasehold.ErrExpired)
	wantEnded(t, g, leasehold.ErrExpired)
	if _, err := s.Lock(within(t), "other"); !errors.Is(err, leasehold.ErrExpired) {
		t.Errorf("lock on a lost session: %v, want %v", err, leasehold.ErrExpired)
	}
}

// The quorum is away for longer than the term. The new leader gives every lease another full term, so the keys of the old
// sessions are there when it is back, and the first in line is one whose session has ended.
func TestLock_FailsWhenItsSessionEndedDuringAnOutage(t *testing.T) {
	t.Parallel()
	sc := stage(t, leaseholdtest.Options{Members: 3})
	const ttl = 9 * time.Second // in which a busy machine takes two places in line
	holder, waiter := sc.newSession(ttl), sc.newSession(ttl)
	g := mustLock(t, holder, "name")
	waiting := lockAside(within(t), waiter, "name")
	ghost := sc.awaitLine("name", 2)[1]
	if err := sc.LoseQuorum(within(t)); err != nil {
		t.Fatal(err)
	}
	r := await(t, "the wait ends", waiting)
	wantErr(t, "lock in an outage", r.err, leasehold.ErrExpired)
	await(t, "the holder's session ends", holder.Done())
	wantEnded(t, g, leasehold.ErrExpired)
	if _, err := sc.RegainQuorum(within(t)); err != nil {
		t.Fatal(err)
	}
	next := mustLock(t, sc.newSession(30*time.Second), "name") // past the ghost
	if sc.exists(ghost) {
		t.Error("the key of the wait that failed is still there")
	}
	if next.Token() <= g.Token() {
		t.Errorf("token %v after %v", next.Token(), g.Token())
	}
}

// What an operator does behind a holder's back, to whom it is told and how. The term is so long that a renewal would tell
// nobody before the step's bound.
func TestGrant_IsToldWhatAnOperatorTakes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what         string
		take         func(sc *scene, g *leasehold.Grant) error
		wholeSession bool
	}{
		{"delete the key", func(sc *scene, g *leasehold.Grant) error {
			return sc.Delete(within(sc.t), g.Key())
		}, false},
		{"overwrite the key", func(sc *scene, g *leasehold.Grant) error {
			return sc.Overwrite(within(sc.t), g.Key(), "mine")
		}, false},
		{"strip the lease", func(sc *scene, g *leasehold.Grant) error {
			_, err := sc.operator().Put(within(sc.t), g.Key(), "", clientv3.WithIgnoreValue())
			return err
		}, false},
		{"delete and write again", func(sc *scene, g *leasehold.Grant) error {
			op := sc.operator()
			if _, err := op.Delete(within(sc.t), g.Key()); err != nil {
				return err
			}
			_, err := op.Put(within(sc.t), g.Key(), "mine")
			sc.t.Cleanup(func() { _ = sc.Delete(context.WithoutCancel(sc.t.Context()), g.Key()) }) // not ours to delete
			return err
		}, false},
		{"revoke the lease", func(sc *scene, g *leasehold.Grant) error {
			return sc.RevokeLease(within(sc.t), g.Session().Lease())
		}, true},
	}
	for _, tt := range tests {
		for _, age := range []struct {
			what string
			wait time.Duration
		}{{"young", 0}, {"old", 1500 * time.Millisecond}} {
			t.Run(tt.what+"/"+age.what, func(t *testing.T) {
				t.Parallel()
				sc := solo.scene(t)
				s := sc.newSession(4 * time.Minute)
				g, other := mustLock(t, s, "name"), mustLock(t, s, "other")
				time.Sleep(age.wait)
				if err := tt.take(sc, g); err != nil {
					t.Fatal(err)
				}
				await(t, "the holder is told", g.Done())
				wantEnded(t, g, leasehold.ErrRevoked)
				err := g.Release(within(t))
				wantErr(t, "release", err, leasehold.ErrRevoked)
				if tt.wholeSession {
					await(t, "the session ends", s.Done()) // a round trip later: its next renewal tells
					wantEnded(t, other, leasehold.ErrRevoked)
					wantErr(t, "session", s.Err(), leasehold.ErrRevoked)
				} else if !other.Valid() {
					t.Errorf("another grant of the session ended: %v", other.Err())
				}
			})
		}
	}
}

func TestSession_WithoutGrantsLearnsOfItsRevocationFromARenewal(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(9 * time.Second)
	if err := sc.RevokeLease(within(t), s.Lease()); err != nil {
		t.Fatal(err)
	}
	await(t, "the session ends", s.Done())
	wantErr(t, "the cause", context.Cause(s.Context()), leasehold.ErrRevoked) // not ErrExpired: told before
}

// A comparison that comes from a grant holds in etcd for as long as this grant is the holder, and not a moment longer.
func TestGrant_GuardPassesOnlyForTheHolder(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	passes := func(cmp clientv3.Cmp) bool {
		t.Helper()
		resp, err := sc.operator().Txn(within(t)).If(cmp).Commit()
		if err != nil {
			t.Fatal(err)
		}
		return resp.Succeeded
	}
	first := mustLock(t, s, "name")
	waiting := lockAside(within(t), s, "name")
	sc.awaitLine("name", 2)
	if !passes(first.Cmp()) {
		t.Error("the holder's guard does not pass")
	}
	mustRelease(t, first)
	second := granted(t, "the waiter", waiting)
	if passes(first.Cmp()) {
		t.Error("the guard of a released grant passes")
	}
	if !passes(second.Cmp()) {
		t.Error("the guard of the new holder does not pass")
	}
	if err := sc.Delete(within(t), second.Key()); err != nil {
		t.Fatal(err)
	}
	if passes(second.Cmp()) {
		t.Error("the guard of a deleted key passes")
	}
	// Whoever only waited has nothing to guard with.
	holder := mustLock(t, s, "busy")
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := lockAside(ctx, s, "busy")
	sc.awaitLine("busy", 2)
	cancel()
	if r := await(t, "the wait ends", gaveUp); r.grant != nil || !errors.Is(r.err, context.Canceled) {
		t.Errorf("a wait that was given up returned %v, %v", r.grant, r.err)
	}
	if g, err := s.TryLock(within(t), "busy"); g != nil || !errors.Is(err, leasehold.ErrLocked) {
		t.Errorf("TryLock on a held name returned %v, %v", g, err)
	}
	mustRelease(t, holder)
}
