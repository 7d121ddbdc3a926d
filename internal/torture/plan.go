// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// deed is one thing that the nemesis does.
type deed struct {
	At     time.Duration // since its part of the run began
	Kind   string
	For    time.Duration // until the nemesis undoes it itself; 0: there is nothing to undo, or a later deed does it
	Slot   int           // of a worker; -1: none
	Name   string        // that an operator meddles with
	Member int           // -1: none
	Step   leaseholdtest.Step
}

// plan is all that the nemesis will do, drawn from the options and the seed alone. Each list is played by itself, in order: what
// takes long in one, because there is no quorum, delays what follows in that list only.
type plan struct {
	Past     []deed // rollbacks and wipes, before everything else
	Members  []deed
	Links    []deed
	Workers  []deed
	Operator []deed
}

// Kinds of deeds beside the actions of leaseholdtest.
const (
	isolateLeader = "isolate leader"
	rejoinLeader  = "rejoin leader"
	loseQuorum    = "lose quorum"
	regainQuorum  = "regain quorum"
	killAll       = "kill all"
	restartAll    = "restart all"

	rollBack = "roll back"
	wipe     = "wipe"
	replace  = "replace"

	sigstop         = "sigstop"
	stopBeforeWrite = "stop before write"
	sigkill         = "sigkill"
	slowRegister    = "slow register"

	operatorDelete    = "delete"
	operatorOverwrite = "overwrite"
	operatorRevoke    = "revoke"
	operatorNoSpace   = "no space"
)

// forClient makes the kind of a fault on all links of a client at once from that on one.
func forClient(a leaseholdtest.Action) string { return "all links " + string(a) }

// The actions on members and on links, whose densities differ: a fault of a member concerns everybody.
var (
	memberActions = []leaseholdtest.Action{
		leaseholdtest.ActKill, leaseholdtest.ActStop, leaseholdtest.ActPause, leaseholdtest.ActIsolate, leaseholdtest.ActCut,
		leaseholdtest.ActCutOneWay, leaseholdtest.ActLead, leaseholdtest.ActCompact,
	}
	linkActions = []leaseholdtest.Action{
		leaseholdtest.ActHold, leaseholdtest.ActBlackhole, leaseholdtest.ActDelay, leaseholdtest.ActLimit, leaseholdtest.ActRefuse,
		leaseholdtest.ActReset,
	}
)

// Streams of random numbers, so that a change of one part leaves the others as they were.
const (
	streamWorkers uint64 = iota + 1
	streamOperator
	streamBig
	streamClients
	streamPast
)

func (o options) random(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, stream)) }

func (o options) plan() plan {
	p := plan{Past: o.planPast(), Workers: o.planWorkers(), Operator: o.planOperator()}
	p.Members = o.scheduled(memberActions, 3*o.every, 2*o.ttl)
	p.Links = o.scheduled(linkActions, o.every, 5*o.ttl/2)
	p.Members = inOrder(append(p.Members, o.planBig()...))
	p.Links = inOrder(append(p.Links, o.planClients()...))
	return p
}

func inOrder(deeds []deed) []deed {
	slices.SortStableFunc(deeds, func(a, b deed) int { return cmp.Compare(a.At, b.At) })
	return deeds
}

// scheduled draws a schedule of leaseholdtest, whose repairs are steps of their own.
func (o options) scheduled(actions []leaseholdtest.Action, every, longest time.Duration) []deed {
	var deeds []deed
	s := leaseholdtest.NewSchedule(o.seed, leaseholdtest.ScheduleOptions{
		Members: o.members, Clients: o.workers, Length: o.length, Every: every, Longest: longest, Actions: actions,
	})
	for _, step := range s.Steps {
		deeds = append(deeds, deed{At: step.At, Kind: string(step.Do), Slot: -1, Member: step.Member, Step: step})
	}
	return deeds
}

// instants calls draw at instants with a mean distance, until the end of the faults.
func (o options) instants(rng *rand.Rand, every time.Duration, draw func(at time.Duration)) {
	for at := time.Duration(0); ; {
		at += every/2 + time.Duration(rng.Int64N(int64(every)))
		if at >= o.length {
			return
		}
		draw(at)
	}
}

// planBig draws what concerns all members at once, or the leader, whoever it is then. One ends before the next begins.
func (o options) planBig() []deed {
	var deeds []deed
	rng := o.random(streamBig)
	kinds := [][2]string{{isolateLeader, rejoinLeader}, {loseQuorum, regainQuorum}, {killAll, restartAll}}
	free := time.Duration(0)
	o.instants(rng, 12*o.every, func(at time.Duration) {
		kind := kinds[rng.IntN(len(kinds))]
		d := o.ttl/4 + time.Duration(rng.Float64()*float64(o.ttl)*5/4)
		if at < free || at+d >= o.length {
			return
		}
		free = at + d
		deeds = append(deeds, deed{At: at, Kind: kind[0], Slot: -1, Member: -1}, deed{At: at + d, Kind: kind[1], Slot: -1, Member: -1})
	})
	return deeds
}

// planClients draws what cuts a client off from all members at once: it cannot fail over.
func (o options) planClients() []deed {
	var deeds []deed
	rng := o.random(streamClients)
	o.instants(rng, 3*o.every, func(at time.Duration) {
		s := leaseholdtest.Step{
			Do: linkActions[rng.IntN(len(linkActions))], Client: rng.IntN(o.workers),
			Dir:   []leaseholdtest.Direction{leaseholdtest.Up, leaseholdtest.Down, leaseholdtest.Both}[rng.IntN(3)],
			Delay: time.Duration(rng.Int64N(int64(o.ttl) / 2)), Jitter: time.Duration(rng.Int64N(int64(o.ttl) / 2)), Rate: 64 << rng.IntN(8),
		}
		d := time.Duration(rng.Float64() * 5 / 2 * float64(o.ttl))
		if at+d >= o.length {
			return
		}
		x := deed{At: at, Kind: forClient(s.Do), For: d, Slot: s.Client, Member: -1, Step: s}
		if s.Do == leaseholdtest.ActReset {
			x.For = 0
		}
		deeds = append(deeds, x)
	})
	return deeds
}

// planWorkers draws what happens to the worker processes. A process is stopped by one deed at a time.
func (o options) planWorkers() []deed {
	var deeds []deed
	rng := o.random(streamWorkers)
	kinds := []string{sigstop, sigstop, stopBeforeWrite, stopBeforeWrite, sigkill, slowRegister}
	free := make(map[int]time.Duration)
	o.instants(rng, 2*o.every, func(at time.Duration) {
		x := deed{At: at, Kind: kinds[rng.IntN(len(kinds))], Slot: rng.IntN(o.workers), Member: -1}
		x.For = time.Duration(rng.Float64() * 3 * float64(o.ttl))
		switch x.Kind {
		case stopBeforeWrite:
			x.For += o.ttl // always beyond the term: the write that follows is late
		case sigkill:
			x.For = 0
		}
		if at < free[x.Slot] || at+x.For >= o.length {
			return
		}
		if x.Kind != slowRegister {
			free[x.Slot] = at + x.For
		}
		deeds = append(deeds, x)
	})
	return deeds
}

// planOperator draws what is taken away from holders, and full disks.
func (o options) planOperator() []deed {
	var deeds []deed
	rng := o.random(streamOperator)
	kinds := []string{operatorDelete, operatorOverwrite, operatorRevoke, operatorNoSpace}
	o.instants(rng, 3*o.every, func(at time.Duration) {
		x := deed{At: at, Kind: kinds[rng.IntN(len(kinds))], Slot: -1, Member: -1, Name: fmt.Sprintf("n%d", rng.IntN(o.nameN))}
		if x.Kind == operatorNoSpace {
			x.For = o.ttl/10 + time.Duration(rng.Int64N(int64(o.ttl)/2))
		}
		deeds = append(deeds, x)
	})
	return deeds
}

// planPast draws how often the data goes back. Each deed begins when the one before is over; For is how much is forgotten.
func (o options) planPast() []deed {
	var deeds []deed
	rng := o.random(streamPast)
	kinds := []string{rollBack, rollBack, wipe, replace}
	for i := range o.rewinds {
		kind := kinds[rng.IntN(len(kinds))]
		if i < 3 {
			kind = []string{rollBack, wipe, replace}[i] // a short run has them all
		}
		deeds = append(deeds, deed{Kind: kind, For: o.ttl/3 + time.Duration(rng.Int64N(int64(o.ttl))), Slot: -1, Member: -1})
	}
	return deeds
}
