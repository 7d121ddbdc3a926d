// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/leasehold/internal/machineclock"
)

// settling is for how long an event is kept back, so that one of before can still be told before it. overtaking is for how long
// the report of an acquire waits for that of the release that allowed it, which the former holder sends when etcd has answered.
const (
	settling   = 100 * time.Millisecond
	overtaking = 2 * time.Second
)

// until takes in what happens until cond holds. If that takes longer than the story's patience, the wait itself is an
// expectation that was not met.
func (s *story) until(ctx context.Context, what string, cond func() bool) error {
	patience := time.NewTimer(s.patience)
	defer patience.Stop()
	tell := time.NewTicker(settling / 2)
	defer tell.Stop()
	for !cond() {
		select {
		case t := <-s.crew.reports:
			if err := s.receive(t, machineclock.Now()); err != nil {
				return err
			}
		case l := <-s.leaders:
			s.takeLeader(l)
		case <-tell.C:
			now := machineclock.Now()
			if err := s.overdue(now); err != nil {
				return err
			}
			s.flushUntil(now.Sub(s.start) - settling)
		case <-patience.C:
			s.expect(false, "within %v: %s", s.patience, what)
			return errUnmet
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// kept is a report that is not taken yet.
type kept struct {
	tagged
	since machineclock.Instant
}

// receive takes a report, or keeps it while it is early: reports of two processes can overtake each other, and an acquire that
// comes before the release which allowed it would look like two holders. What its sender reports next waits behind it.
func (s *story) receive(t tagged, now machineclock.Instant) error {
	s.early = append(s.early, kept{t, now})
	return s.takeEarly(func(k kept) bool { return s.tooEarly(k.tagged) })
}

// overdue takes what was kept for too long as it is. If there are two holders, that has to be told.
func (s *story) overdue(now machineclock.Instant) error {
	return s.takeEarly(func(k kept) bool { return now.Sub(k.since) < overtaking && s.tooEarly(k.tagged) })
}

// takeEarly takes the kept reports that need not wait, until all that are left have to.
func (s *story) takeEarly(wait func(kept) bool) error {
	for again := true; again; {
		again = false
		var left []kept
		for _, k := range s.early {
			behind := slices.ContainsFunc(left, func(l kept) bool { return l.worker == k.worker })
			if behind || wait(k) {
				left = append(left, k)
				continue
			}
			again = true // another one may have waited for it
			if err := s.take(k.tagged); err != nil {
				return err
			}
		}
		s.early = left
	}
	return nil
}

// tooEarly reports whether t is an acquire during another worker's belief, as far as that one's end is known.
func (s *story) tooEarly(t tagged) bool {
	if t.err != nil || t.Event != evAcquired {
		return false
	}
	for w := range s.workers {
		if b := s.current(w); w != t.worker && b != nil && b.to() >= t.At {
			return true
		}
	}
	return false
}

// nextHolder waits for the next grant.
func (s *story) nextHolder(ctx context.Context) (belief, error) {
	n := len(s.beliefs)
	if err := s.until(ctx, "the next in line gets the lock", func() bool { return len(s.beliefs) > n }); err != nil {
		return belief{}, err
	}
	return s.beliefs[n], nil
}

func (s *story) order(worker int, do string) error { return s.crew.order(worker, order{Do: do}) }

// say tells what has just happened.
func (s *story) say(who, format string, args ...any) {
	s.sayAt(machineclock.Now(), who, format, args...)
}

func (s *story) sayAt(at machineclock.Instant, who, format string, args ...any) {
	hue := "36"
	for i, name := range s.workers {
		if name == who {
			hue = [...]string{"34", "33", "32"}[i%3]
		}
	}
	s.tell(at.Sub(s.start), who, hue, format, args...)
}

func (s *story) takeLeader(l leadership) {
	s.led(l.member, l.at)
	if l.member >= 0 {
		s.sayAt(l.at, "etcd", "%s leads", s.members[l.member].name)
	} else if len(s.beliefs) > 0 {
		s.sayAt(l.at, "etcd", "no leader")
	}
}

// take notes one report, and answers it if it is a write.
func (s *story) take(t tagged) error {
	name := s.workers[t.worker]
	if t.err != nil {
		return fmt.Errorf("worker %s: %w", name, t.err)
	}
	switch b := s.current(t.worker); t.Event {
	case evReady:
		s.ready++
		s.sayAt(t.At, name, "is process %d, with a session of its own", s.pids[t.worker])
	case evWaits:
		if s.waiting[t.worker] {
			break // it had lost its place and got another one
		}
		s.waiting[t.worker] = true
		s.waits = append(s.waits, stretch{lane: t.worker, from: t.At})
		s.sayAt(t.At, name, "gets in line")
	case evAcquired:
		s.acquired(t)
	case evRenewed:
		b.expiry = max(b.expiry, t.Expiry)
	case evChecked:
		s.checks = append(s.checks, t)
		b.expiry = max(b.expiry, t.Expiry)
		if !t.Valid {
			b.ended = t.At
			s.sayAt(t.At, name, "checks token %v: %s", t.Token, t.Reason)
		}
	case evWrite:
		return s.takeWrite(t)
	case evReleased:
		b.ended = t.At
		s.sayAt(t.At, name, "releases token %v", t.Token)
	case evFailed:
		return fmt.Errorf("worker %s: %s", name, t.Reason)
	}
	return nil
}

func (s *story) acquired(t tagged) {
	s.waiting[t.worker] = false
	for i := range s.waits {
		if s.waits[i].lane == t.worker && s.waits[i].to == 0 {
			s.waits[i].to = t.At
		}
	}
	s.beliefs = append(s.beliefs, belief{worker: t.worker, token: t.Token, from: t.At, expiry: t.Expiry})
	s.sayAt(t.At, s.workers[t.worker], "holds the lock with token %v", t.Token)
	if len(s.beliefs) == 1 {
		s.note(t.At, lane{laneWorker, t.worker}, "%s is first in line: token %v", s.workers[t.worker], t.Token)
	}
}

// takeWrite lets the register decide. Of a holder's many writes only the first is worth a line.
func (s *story) takeWrite(t tagged) error {
	name := s.workers[t.worker]
	answer := order{Do: doAnswer}
	err := s.register.write(t.worker, t.Token, t.Value)
	switch {
	case err != nil:
		answer.Refused = err.Error()
		s.say("register", "refuses %s's write: %v", name, err)
	case s.accepted(t.worker) == 1:
		s.say("register", "accepts %s's write with token %v", name, t.Token)
	}
	return s.crew.order(t.worker, answer)
}

// accepted counts the writes that the register took from the worker's present grant.
func (s *story) accepted(worker int) int {
	n := 0
	for _, w := range s.register.writes {
		if w.worker == worker && w.token == s.current(worker).token && w.refused == nil {
			n++
		}
	}
	return n
}

// answered reports whether the worker's latest check was followed by a write that has been answered.
func (s *story) answered(worker int) bool {
	n := len(s.register.writes)
	return n > 0 && s.register.writes[n-1].worker == worker && s.register.writes[n-1].at > s.checks[len(s.checks)-1].At
}
