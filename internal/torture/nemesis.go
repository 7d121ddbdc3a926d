// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// nemesis does what goes wrong, by its plan: to the members, to the links, to the workers by signals, to keys as an operator. Two
// subjects with one seed meet the same.
type nemesis struct {
	opts     options
	plan     plan
	cluster  *leaseholdtest.Cluster
	clients  []*leaseholdtest.Client // by slot
	workers  []*slot
	registry *registers
	operator *clientv3.Client
	isolated *leaseholdtest.Member // by isolateLeader; used by the player of members only

	mu     sync.Mutex
	faults []fault
	open   map[string]int // faults that last, by what they concern: an index into faults
}

// note records a fault, and returns where, for [nemesis.ended].
func (n *nemesis) note(f fault) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.End == 0 {
		f.End = f.Begin
	}
	n.faults = append(n.faults, f)
	return len(n.faults) - 1
}

func (n *nemesis) ended(i int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[i].End = machineclock.Now()
}

// during records a fault that lasts for d, from now on, and waits for its end, or that of the run.
func (n *nemesis) during(ctx context.Context, f fault, d time.Duration) {
	i := n.note(f)
	_ = clock.Wait(ctx, d) // it is undone at once if the run ends
	n.ended(i)
}

// run plays the faults and returns when the last one is repaired.
func (n *nemesis) run(ctx context.Context) error {
	n.open = make(map[string]int)
	begin := time.Now()
	var all, lasting sync.WaitGroup
	play := func(deeds []deed, do func(context.Context, deed)) {
		all.Go(func() {
			for _, d := range deeds {
				if clock.Wait(ctx, time.Until(begin.Add(d.At))) != nil {
					return
				}
				do(ctx, d)
			}
		})
	}
	apart := func(do func(context.Context, deed)) func(context.Context, deed) {
		return func(ctx context.Context, d deed) { lasting.Go(func() { do(ctx, d) }) }
	}
	play(n.plan.Members, n.member)
	play(n.plan.Links, func(ctx context.Context, d deed) {
		if d.For == 0 {
			n.link(ctx, d)
			return
		}
		lasting.Go(func() { n.link(ctx, d) })
	})
	play(n.plan.Workers, apart(n.worker))
	play(n.plan.Operator, apart(n.operate))
	all.Wait()
	lasting.Wait()
	return n.repair(ctx)
}

// repair ends what may have been left, because its undoing found no quorum.
func (n *nemesis) repair(ctx context.Context) error {
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := n.cluster.HealAll(healing); err != nil {
		return fmt.Errorf("heal the cluster: %w", err)
	}
	n.endOpen()
	n.clearAlarms(healing)
	return nil
}

// bestEffort bounds what needs a quorum, which there may not be.
const bestEffort = time.Second

// member does something to members. What cannot be done is left out: nothing is recorded of it.
func (n *nemesis) member(ctx context.Context, d deed) {
	f := fault{Kind: d.Kind, What: d.Kind, Begin: machineclock.Now(), Worker: -1, Member: d.Member}
	brief, cancel := context.WithTimeout(ctx, bestEffort)
	defer cancel()
	switch d.Kind {
	case isolateLeader:
		leader, err := n.cluster.WaitLeader(brief)
		if err != nil {
			return
		}
		n.isolated = leader
		n.cluster.Isolate(leader)
		f.Member, f.What = leader.Index(), "isolate the leader, "+leader.String()
		n.begun("big", f)
	case rejoinLeader:
		if n.isolated != nil {
			n.cluster.Rejoin(n.isolated)
			n.isolated = nil
			n.undone("big")
		}
	case loseQuorum:
		f.What = "cut every pair of members"
		n.begun("big", f)
		_ = n.cluster.LoseQuorum(brief) // they are cut at once, the rest is waiting
	case regainQuorum:
		_, _ = n.cluster.RegainQuorum(brief) // they are mended at once, the rest is waiting
		n.undone("big")
	case killAll:
		f.What = "kill all members"
		if n.cluster.KillAll(ctx) == nil {
			n.begun("big", f)
		}
	case restartAll:
		_ = n.cluster.RestartAll(brief) // those that were started go on; repair tells of one that does not
		n.undone("big")
	default:
		n.memberStep(ctx, brief, d.Step, f)
	}
}

// memberStep does a step of a schedule of leaseholdtest.
func (n *nemesis) memberStep(ctx, brief context.Context, s leaseholdtest.Step, f fault) {
	f.What = s.String()
	m := n.cluster.Member(s.Member)
	var err error
	switch s.Do {
	case leaseholdtest.ActKill:
		err = m.Kill(ctx)
	case leaseholdtest.ActStop:
		err = m.Stop(ctx)
	case leaseholdtest.ActRestart:
		if err := m.Restart(brief); err != nil && !m.Running() {
			return // repair brings it back
		}
	case leaseholdtest.ActPause:
		m.Pause()
	case leaseholdtest.ActResume:
		m.Resume()
	case leaseholdtest.ActIsolate:
		n.cluster.Isolate(m)
	case leaseholdtest.ActRejoin:
		n.cluster.Rejoin(m)
	case leaseholdtest.ActCut:
		n.cluster.Cut(m, n.cluster.Member(s.Other))
	case leaseholdtest.ActCutOneWay:
		n.cluster.CutOneWay(m, n.cluster.Member(s.Other))
	case leaseholdtest.ActMend:
		n.cluster.Mend(m, n.cluster.Member(s.Other))
	case leaseholdtest.ActLead:
		err = n.cluster.MoveLeader(brief, m)
	case leaseholdtest.ActCompact:
		_, err = n.cluster.Compact(brief)
	}
	about := fmt.Sprintf("member %d", s.Member)
	switch s.Do {
	case leaseholdtest.ActRestart, leaseholdtest.ActResume, leaseholdtest.ActRejoin, leaseholdtest.ActMend:
		n.undone(about)
	case leaseholdtest.ActLead, leaseholdtest.ActCompact:
		if err == nil {
			f.End = machineclock.Now()
			n.note(f)
		}
	default:
		if err == nil {
			n.begun(about, f)
		}
	}
}

// link does something to one link of a client, or to all of them.
func (n *nemesis) link(ctx context.Context, d deed) {
	s := d.Step
	f := fault{Kind: d.Kind, What: s.String(), Begin: machineclock.Now(), Worker: s.Client, Member: -1}
	if d.Kind == forClient(s.Do) {
		links := n.clients[s.Client].Links()
		f.What = fmt.Sprintf("all links of w%d: %s", s.Client, onLinkText(s))
		for _, l := range links {
			onLink(l, s)
		}
		n.during(ctx, f, d.For)
		if d.For > 0 {
			for _, l := range links {
				l.Heal()
			}
		}
		return
	}
	onLink(n.clients[s.Client].Link(n.cluster.Member(s.Member)), s)
	about := fmt.Sprintf("link of w%d to member %d", s.Client, s.Member)
	switch s.Do {
	case leaseholdtest.ActHeal:
		n.undone(about)
	case leaseholdtest.ActReset:
		n.note(f)
	default:
		n.begun(about, f)
	}
}

func onLink(l *leaseholdtest.Link, s leaseholdtest.Step) {
	switch s.Do {
	case leaseholdtest.ActHold:
		l.Hold(s.Dir)
	case leaseholdtest.ActBlackhole:
		l.Blackhole(s.Dir)
	case leaseholdtest.ActDelay:
		l.Delay(s.Dir, s.Delay, s.Jitter)
	case leaseholdtest.ActLimit:
		l.Limit(s.Dir, s.Rate)
	case leaseholdtest.ActRefuse:
		l.Refuse()
	case leaseholdtest.ActReset:
		l.Reset()
	case leaseholdtest.ActHeal:
		l.Heal()
	}
}

// onLinkText says what onLink does.
func onLinkText(s leaseholdtest.Step) string {
	switch s.Do {
	case leaseholdtest.ActHold, leaseholdtest.ActBlackhole:
		return fmt.Sprintf("%s %v", s.Do, s.Dir)
	case leaseholdtest.ActDelay:
		return fmt.Sprintf("%s %v by %v and up to %v more", s.Do, s.Dir, s.Delay.Round(time.Millisecond), s.Jitter.Round(time.Millisecond))
	case leaseholdtest.ActLimit:
		return fmt.Sprintf("%s %v to %d bytes a second", s.Do, s.Dir, s.Rate)
	}
	return string(s.Do)
}

// begun records a fault that lasts until what it concerns is undone.
func (n *nemesis) begun(about string, f fault) {
	i := n.note(f)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open[about] = i
}

func (n *nemesis) undone(about string) {
	n.mu.Lock()
	i, ok := n.open[about]
	delete(n.open, about)
	n.mu.Unlock()
	if ok {
		n.ended(i)
	}
}

// endOpen records the end of all that has not been undone one by one.
func (n *nemesis) endOpen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for about, i := range n.open {
		n.faults[i].End = machineclock.Now()
		delete(n.open, about)
	}
}

// goBack plays what takes the data back, one after the other.
func (n *nemesis) goBack(ctx context.Context) error {
	for _, d := range n.plan.Past {
		if err := n.rewind(ctx, d); err != nil {
			if ctx.Err() != nil {
				return nil // the run was ended
			}
			return fmt.Errorf("%s the data: %w", d.Kind, err)
		}
	}
	return nil
}
