// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// story is the play: it gives the orders, answers the writes and notes what it sees. All of it runs in one goroutine,
// which owns the record and the register.
type story struct {
	*narrator
	record
	register register

	ttl      time.Duration
	beat     time.Duration
	patience time.Duration // for any one thing that must happen
	cluster  *leaseholdtest.Cluster
	crew     *crew
	leaders  <-chan leadership

	early   []kept // reports that are not taken yet
	ready   int
	checks  []tagged // every check that was reported
	waiting []bool   // by worker
}

// errUnmet ends the story early: something that the rest builds on did not happen. It has been told already.
var errUnmet = errors.New("demo: an expectation was not met")

// play tells the story from the start to the end. It returns errUnmet, the context's error or what else went wrong.
func (s *story) play(ctx context.Context) error {
	s.waiting = make([]bool, len(s.workers))
	if err := s.until(ctx, "all workers have a session and etcd has a leader", func() bool {
		return s.ready == len(s.workers) && s.leader() >= 0
	}); err != nil {
		return err
	}
	first, second, err := s.handOver(ctx)
	if err != nil {
		return err
	}
	holder := second
	if canPause {
		if holder, err = s.stopHolder(ctx, second, first); err != nil {
			return err
		}
	} else {
		s.heading("2. A holder that stops running")
		s.say("story", "left out: this system has no SIGSTOP, so no process can be stopped from outside")
	}
	if err := s.stopLeader(ctx, holder); err != nil {
		return err
	}
	return s.finish(ctx, holder)
}

// handOver lets one worker lock, the others wait, and the first release.
func (s *story) handOver(ctx context.Context) (first, second int, err error) {
	s.heading("1. One holds, the others wait in line")
	for w := range s.workers {
		if err := s.order(w, doLock); err != nil {
			return 0, 0, err
		}
	}
	if err := s.until(ctx, "one worker holds the lock and has written", func() bool { return len(s.register.writes) >= 6 }); err != nil {
		return 0, 0, err
	}
	before := s.beliefs[len(s.beliefs)-1]
	after, err := s.pass(ctx, before.worker)
	if err != nil {
		return 0, 0, err
	}
	s.note(after.from, lane{laneWorker, after.worker}, "%s releases, %s is next in line: token %v", s.workers[before.worker], s.workers[after.worker], after.token)
	before = *s.current(before.worker)
	s.expect(after.token > before.token, "token %v is larger than %v", after.token, before.token)
	s.expect(before.to() < after.from, "%s stopped believing before %s began: %v apart", s.workers[before.worker], s.workers[after.worker], round(after.from.Sub(before.to())))
	return before.worker, after.worker, s.order(before.worker, doLock)
}

// pass lets the holder release and waits for the next one, and until both have told: reports of two processes come in
// any order.
func (s *story) pass(ctx context.Context, holder int) (belief, error) {
	if err := s.order(holder, doRelease); err != nil {
		return belief{}, err
	}
	next, err := s.nextHolder(ctx)
	if err != nil {
		return belief{}, err
	}
	return next, s.until(ctx, s.workers[holder]+" tells that it has released", func() bool { return s.current(holder).ended != 0 })
}

// stopHolder stops the holder for longer than its term and lets it find out. It returns who holds then.
func (s *story) stopHolder(ctx context.Context, holder, other int) (int, error) {
	s.heading("2. The holder stops running, for longer than its term")
	name := s.workers[holder]
	// Stop it just after a renewal and a write: then its last report still says how long it would have believed.
	fresh := func() bool {
		n := len(s.checks)
		return n > 0 && s.checks[n-1].worker == holder && s.current(holder).expiry.Sub(machineclock.Now()) > s.ttl*3/4 && s.answered(holder) && s.accepted(holder) >= 4
	}
	if err := s.until(ctx, name+" has renewed and written, and "+s.workers[other]+" is in line", func() bool { return fresh() && s.waiting[other] }); err != nil {
		return 0, err
	}
	if err := pause(s.crew.workers[holder].child); err != nil {
		return 0, fmt.Errorf("stop %s: %w", name, err)
	}
	stopped := machineclock.Now()
	s.stops = append(s.stops, stretch{lane: holder, from: stopped})
	s.note(stopped, lane{laneWorker, holder}, "%s is stopped with SIGSTOP while it holds", name)
	s.sayAt(stopped, name, "is stopped (SIGSTOP, process %d): it renews nothing, checks nothing, knows nothing", s.pids[holder])

	after, err := s.nextHolder(ctx)
	if err != nil {
		return 0, err
	}
	before := *s.current(holder)
	s.note(before.to(), lane{laneWorker, holder}, "%s's term ends by its own clock, %.1f s after the stop", name, before.to().Sub(stopped).Seconds())
	s.note(after.from, lane{laneWorker, after.worker}, "%s takes over with the larger token %v", s.workers[after.worker], after.token)
	s.expect(after.token > before.token, "take-over with a larger token: %v after %v", after.token, before.token)
	s.expect(before.to() < after.from, "%s's term had ended by its own clock %v before %s got the lock", name, round(after.from.Sub(before.to())), s.workers[after.worker])
	if err := s.until(ctx, s.workers[after.worker]+" writes with its token", func() bool { return s.accepted(after.worker) >= 5 }); err != nil {
		return 0, err
	}

	seen := len(s.checks)
	resumed := machineclock.Now()
	s.stops[len(s.stops)-1].to = resumed
	if err := resume(s.crew.workers[holder].child); err != nil {
		return 0, fmt.Errorf("resume %s: %w", name, err)
	}
	s.sayAt(resumed, name, "is resumed (SIGCONT) and still has its grant in hand")
	return after.worker, s.afterwards(ctx, holder, seen, resumed)
}

// afterwards watches what the resumed holder finds and does.
func (s *story) afterwards(ctx context.Context, holder, seen int, resumed machineclock.Instant) error {
	name := s.workers[holder]
	var check *tagged
	if err := s.until(ctx, name+" checks its grant", func() bool {
		for i := range s.checks[seen:] {
			if c := &s.checks[seen+i]; c.worker == holder && c.At > resumed {
				check = c
				return true
			}
		}
		return false
	}); err != nil {
		return err
	}
	s.note(resumed, lane{laneWorker, holder}, "%s is resumed with SIGCONT; its first check says: %s", name, verdict(check))
	s.expect(!check.Valid && check.Expired, "%s's first check says no: %s", name, orElse(check.Reason, "it said yes"))
	var late *write
	if err := s.until(ctx, name+" writes all the same", func() bool {
		for i := range s.register.writes {
			if w := &s.register.writes[i]; w.worker == holder && w.at > resumed {
				late = w
				return true
			}
		}
		return false
	}); err != nil {
		return err
	}
	decision := "refuses it: it has seen a larger one"
	if late.refused == nil {
		decision = "takes it"
	}
	s.note(late.at, lane{kind: laneRegister}, "%s ignores that and writes with token %v; the register %s", name, late.token, decision)
	s.expect(late.refused != nil, "the write that ignored the check is refused by the fence: %v", late.refused)
	return nil
}

// stopLeader stops the etcd member that leads and waits until a lease that nobody had renewed since would be over.
func (s *story) stopLeader(ctx context.Context, holder int) error {
	s.heading("3. The etcd leader stops")
	token := s.current(holder).token
	writes := s.accepted(holder)
	if err := s.until(ctx, s.workers[holder]+" goes on writing", func() bool { return s.accepted(holder) >= writes+4 }); err != nil {
		return err
	}
	old := s.leader()
	if old < 0 {
		return fmt.Errorf("demo: no etcd leader to stop")
	}
	stopped := machineclock.Now()
	s.sayAt(stopped, "etcd", "%s, which leads, is stopped; %s holds token %v", s.members[old].name, s.workers[holder], token)
	s.note(stopped, lane{laneEtcd, old}, "etcd's leader %s is stopped", s.members[old].name)
	s.members[old].down = stopped
	if err := s.cluster.Member(old).Kill(ctx); err != nil {
		return fmt.Errorf("stop etcd member %s: %w", s.members[old].name, err)
	}
	if err := s.until(ctx, "another etcd member leads", func() bool { return s.leader() >= 0 && s.leader() != old }); err != nil {
		return err
	}
	next := s.leader()
	s.note(s.members[next].leads[len(s.members[next].leads)-1].from, lane{laneEtcd, next}, "%s leads now", s.members[next].name)

	// Without a renewal since the stop, no term of before reaches this far.
	enough := stopped.Add(s.ttl + s.ttl/4)
	seen := len(s.checks)
	var last *tagged
	if err := s.until(ctx, s.workers[holder]+" checks its grant a term later", func() bool {
		n := len(s.checks)
		last = &s.checks[n-1]
		return last.worker == holder && n > seen && (last.At > enough || !last.Valid)
	}); err != nil {
		return err
	}
	if last.Valid {
		s.note(last.At, lane{laneWorker, holder}, "%s still holds token %v, %.1f s after the leader stopped", s.workers[holder], last.Token, last.At.Sub(stopped).Seconds())
	}
	if !s.expect(last.Valid && last.Token == token, "%s's session survived: still valid with token %v, %.1f s after the stop, more than a term of %v", s.workers[holder], last.Token, last.At.Sub(stopped).Seconds(), s.ttl) {
		return errUnmet
	}
	return nil
}

// finish lets everybody have a turn on the new leader, then sends all home and looks back.
func (s *story) finish(ctx context.Context, holder int) error {
	s.heading("4. The others get their turns")
	for range len(s.workers) - 1 {
		before := *s.current(holder)
		after, err := s.pass(ctx, holder)
		if err != nil {
			return err
		}
		s.expect(after.token > before.token, "token %v is larger than %v", after.token, before.token)
		if err := s.until(ctx, s.workers[after.worker]+" writes with its token", func() bool { return s.accepted(after.worker) >= 4 }); err != nil {
			return err
		}
		holder = after.worker
	}
	if err := s.order(holder, doRelease); err != nil {
		return err
	}
	return s.until(ctx, s.workers[holder]+" releases", func() bool { return s.current(holder).ended != 0 })
}

// lookBack states what must hold over the whole story.
func (s *story) lookBack() {
	s.heading("Looking back")
	rising := true
	for i := 1; i < len(s.beliefs); i++ {
		rising = rising && s.beliefs[i].token > s.beliefs[i-1].token
	}
	s.expect(rising, "%d grants, each with a larger token than the one before", len(s.beliefs))
	if closest, ok := s.closest(); ok {
		s.expect(closest > 0, "never two processes that believed at once: at least %v between one and the next", round(closest))
	}
	refusedWell, accepted := true, 0
	for _, w := range s.register.writes {
		if w.refused == nil {
			accepted++
			continue
		}
		b := s.current(w.worker)
		for i := range s.beliefs {
			if s.beliefs[i].token == w.token {
				b = &s.beliefs[i]
			}
		}
		refusedWell = refusedWell && w.at > b.to()
	}
	s.expect(refusedWell, "%d writes accepted, %d refused, none of a process whose check said yes", accepted, len(s.register.writes)-accepted)
}

func verdict(check *tagged) string {
	switch {
	case check.Valid:
		return "valid"
	case check.Expired:
		return "expired"
	default:
		return check.Reason
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// round leaves three digits or so.
func round(d time.Duration) time.Duration {
	if d.Abs() < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}
