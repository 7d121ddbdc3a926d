// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Action is what a [Step] of a [Schedule] does.
type Action string

// The faults, and the actions that end them.
const (
	ActKill      Action = "kill"      // Member.Kill; ended by ActRestart
	ActStop      Action = "stop"      // Member.Stop; ended by ActRestart
	ActRestart   Action = "restart"   // Member.Restart, without the wait until it serves
	ActPause     Action = "pause"     // Member.Pause; ended by ActResume
	ActResume    Action = "resume"    // Member.Resume
	ActIsolate   Action = "isolate"   // Cluster.Isolate; ended by ActRejoin
	ActRejoin    Action = "rejoin"    // Cluster.Rejoin
	ActCut       Action = "cut"       // Cluster.Cut; ended by ActMend
	ActCutOneWay Action = "cutoneway" // Cluster.CutOneWay; ended by ActMend
	ActMend      Action = "mend"      // Cluster.Mend
	ActLead      Action = "lead"      // Cluster.MoveLeader, if that can be done in a second
	ActCompact   Action = "compact"   // Cluster.Compact, if that can be done in a second
	ActHold      Action = "hold"      // Link.Hold; ended by ActHeal
	ActBlackhole Action = "blackhole" // Link.Blackhole; ended by ActHeal
	ActDelay     Action = "delay"     // Link.Delay; ended by ActHeal
	ActLimit     Action = "limit"     // Link.Limit; ended by ActHeal
	ActRefuse    Action = "refuse"    // Link.Refuse; ended by ActHeal
	ActReset     Action = "reset"     // Link.Reset
	ActHeal      Action = "heal"      // Link.Heal
)

// operand is a field of a [Step] that an action needs.
type operand uint8

const (
	opMember operand = iota
	opOther
	opClient
	opDir
	opDelay
	opJitter
	opRate
)

// actionSpec is all that there is to know about an action.
type actionSpec struct {
	action   Action
	operands []operand // in the order of the text form
	ends     Action    // what ends the fault; "" if the action is none that lasts
	repair   bool      // the action only ends a fault
	members  int       // the smallest cluster in which the action has a meaning
	downs    bool      // the member is lost to the quorum meanwhile
	run      func(context.Context, *player, Step) error
}

// bestEffort bounds an action that needs a quorum, which there may not be.
const bestEffort = time.Second

// actions lists every action, in the order in which a generator draws them: a change of it changes what a seed stands
// for.
var actions = []actionSpec{
	{
		action: ActKill, operands: onMember, ends: ActRestart, members: 1, downs: true,
		run: func(ctx context.Context, p *player, s Step) error { return p.member(s.Member).Kill(ctx) },
	},
	{
		action: ActStop, operands: onMember, ends: ActRestart, members: 1, downs: true,
		run: func(ctx context.Context, p *player, s Step) error { return p.member(s.Member).Stop(ctx) },
	},
	{
		action: ActRestart, operands: onMember, repair: true,
		run: func(ctx context.Context, p *player, s Step) error {
			_, err := p.member(s.Member).restart(ctx)
			return err
		},
	},
	{
		action: ActPause, operands: onMember, ends: ActResume, members: 1, downs: true,
		run: atOnce(func(p *player, s Step) { p.member(s.Member).Pause() }),
	},
	{
		action: ActResume, operands: onMember, repair: true,
		run: atOnce(func(p *player, s Step) { p.member(s.Member).Resume() }),
	},
	{
		action: ActIsolate, operands: onMember, ends: ActRejoin, members: 3, downs: true,
		run: atOnce(func(p *player, s Step) { p.cluster.Isolate(p.member(s.Member)) }),
	},
	{
		action: ActRejoin, operands: onMember, repair: true,
		run: atOnce(func(p *player, s Step) { p.cluster.Rejoin(p.member(s.Member)) }),
	},
	{
		action: ActCut, operands: onPair, ends: ActMend, members: 3, downs: true,
		run: atOnce(func(p *player, s Step) { p.cluster.Cut(p.member(s.Member), p.member(s.Other)) }),
	},
	{
		action: ActCutOneWay, operands: onPair, ends: ActMend, members: 3, downs: true,
		run: atOnce(func(p *player, s Step) { p.cluster.CutOneWay(p.member(s.Member), p.member(s.Other)) }),
	},
	{
		action: ActMend, operands: onPair, repair: true,
		run: atOnce(func(p *player, s Step) { p.cluster.Mend(p.member(s.Member), p.member(s.Other)) }),
	},
	{
		action: ActLead, operands: onMember, members: 3,
		run: ifPossible(func(ctx context.Context, p *player, s Step) error {
			return p.cluster.MoveLeader(ctx, p.member(s.Member))
		}),
	},
	{
		action: ActCompact, members: 1,
		run: ifPossible(func(ctx context.Context, p *player, _ Step) error {
			_, err := p.cluster.Compact(ctx)
			return err
		}),
	},
	{
		action: ActHold, operands: []operand{opClient, opMember, opDir}, ends: ActHeal, members: 1,
		run: onLink(func(l *Link, s Step) { l.Hold(s.Dir) }),
	},
	{
		action: ActBlackhole, operands: []operand{opClient, opMember, opDir}, ends: ActHeal, members: 1,
		run: onLink(func(l *Link, s Step) { l.Blackhole(s.Dir) }),
	},
	{
		action: ActDelay, operands: []operand{opClient, opMember, opDir, opDelay, opJitter}, ends: ActHeal, members: 1,
		run: onLink(func(l *Link, s Step) { l.Delay(s.Dir, s.Delay, s.Jitter) }),
	},
	{
		action: ActLimit, operands: []operand{opClient, opMember, opDir, opRate}, ends: ActHeal, members: 1,
		run: onLink(func(l *Link, s Step) { l.Limit(s.Dir, s.Rate) }),
	},
	{
		action: ActRefuse, operands: []operand{opClient, opMember}, ends: ActHeal, members: 1,
		run: onLink(func(l *Link, _ Step) { l.Refuse() }),
	},
	{
		action: ActReset, operands: []operand{opClient, opMember}, members: 1,
		run: onLink(func(l *Link, _ Step) { l.Reset() }),
	},
	{
		action: ActHeal, operands: []operand{opClient, opMember}, repair: true,
		run: onLink(func(l *Link, _ Step) { l.Heal() }),
	},
}

// What many actions are about.
var (
	onMember = []operand{opMember}
	onPair   = []operand{opMember, opOther}
)

// atOnce is for actions that neither wait nor fail.
func atOnce(f func(*player, Step)) func(context.Context, *player, Step) error {
	return func(_ context.Context, p *player, s Step) error {
		f(p, s)
		return nil
	}
}

// ifPossible is for actions that need a quorum, which other faults may have taken: they get a bounded time, and may
// fail.
func ifPossible(f func(context.Context, *player, Step) error) func(context.Context, *player, Step) error {
	return func(ctx context.Context, p *player, s Step) error {
		ctx, cancel := context.WithTimeout(ctx, bestEffort)
		defer cancel()
		_ = f(ctx, p, s)
		return nil
	}
}

// onLink is for actions on the link of the step's client to the step's member, if the client connects to it.
func onLink(f func(*Link, Step)) func(context.Context, *player, Step) error {
	return func(_ context.Context, p *player, s Step) error {
		if l := p.clients[s.Client].Link(p.member(s.Member)); l != nil {
			f(l, s)
		}
		return nil
	}
}

func (a Action) spec() (actionSpec, error) {
	for _, s := range actions {
		if s.action == a {
			return s, nil
		}
	}
	known := make([]string, len(actions))
	for i, s := range actions {
		known[i] = string(s.action)
	}
	return actionSpec{}, fmt.Errorf("no action %.20q: want one of %s", string(a), strings.Join(known, ", "))
}

func (s actionSpec) needs(o operand) bool { return slices.Contains(s.operands, o) }
