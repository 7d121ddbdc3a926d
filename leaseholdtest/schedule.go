// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"cmp"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The environment variables by which a failed test is repeated. See [RandomSchedule].
const (
	SeedVariable     = "LEASEHOLDTEST_SEED"
	ScheduleVariable = "LEASEHOLDTEST_SCHEDULE"
)

// Schedule is a list of faults and repairs, each at its time. It can be written as text ([Schedule.String]) and
// read back ([ParseSchedule]). [Cluster.Play] makes it happen.
type Schedule struct {
	Steps []Step // in the order of their times
}

// Step is one action of a [Schedule]. Of the fields below Do, those count that the action needs.
type Step struct {
	At            time.Duration // since the beginning
	Do            Action        // what is done
	Client        int           // an index into the clients given to [Cluster.Play]
	Member, Other int           // indices into [Cluster.Members]
	Dir           Direction     // of a link's fault
	Delay, Jitter time.Duration // as of [Link.Delay]
	Rate          int           // bytes a second
}

// ScheduleOptions bounds what [NewSchedule] draws.
type ScheduleOptions struct {
	// Members and Clients are how many there are. Default 1 each.
	Members, Clients int
	// Length is the time of the last step. Default 10 s.
	Length time.Duration
	// Every is the mean time between two faults. Default 500 ms.
	Every time.Duration
	// Longest is how long a fault lasts at most. Default 2 s.
	Longest time.Duration
	// Actions are the faults to draw from. Default: all that have a meaning in a cluster of this size.
	Actions []Action
	// KeepQuorum never lets more members than a minority be down, paused or cut off at once. A cluster of one
	// keeps its quorum by never being down.
	KeepQuorum bool
}

// NewSchedule draws a schedule: the same one for the same seed and options. Every fault ends within the schedule, and
// no two faults meet on one member, or on one link.
func NewSchedule(seed uint64, o ScheduleOptions) Schedule {
	o.Members = max(o.Members, 1)
	o.Clients = max(o.Clients, 1)
	o.Length = cmp.Or(o.Length, 10*time.Second)
	o.Every = cmp.Or(o.Every, 500*time.Millisecond)
	o.Longest = cmp.Or(o.Longest, 2*time.Second)
	d := &drawer{
		o:         o,
		rng:       rand.New(rand.NewPCG(seed, 0)),
		busy:      make([]time.Duration, o.Members),
		downUntil: make([]time.Duration, o.Members),
		busyLink:  make(map[[2]int]time.Duration),
	}
	for _, s := range actions {
		wanted := len(o.Actions) == 0 || slices.Contains(o.Actions, s.action)
		if wanted && !s.repair && o.Members >= s.members {
			d.from = append(d.from, s)
		}
	}
	return d.draw()
}

// RandomSchedule draws a schedule for a test, another one at every run. If the test fails, it logs the schedule and
// how to repeat it: with the environment variable LEASEHOLDTEST_SEED set to its seed, or LEASEHOLDTEST_SCHEDULE to its
// text, which can be shortened by hand.
func RandomSchedule(t testing.TB, o ScheduleOptions) Schedule {
	t.Helper()
	s, origin := Schedule{}, ScheduleVariable
	if text := os.Getenv(ScheduleVariable); text != "" {
		var err error
		if s, err = ParseSchedule(text); err != nil {
			t.Fatalf("%s: %v", ScheduleVariable, err)
		}
	} else {
		seed := Seed(t)
		s, origin = NewSchedule(seed, o), "seed "+strconv.FormatUint(seed, 10)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the schedule was, from %s:\n%s='%s'", origin, ScheduleVariable, s)
		}
	})
	return s
}

// Seed returns a random seed for a test, or the one in the environment variable LEASEHOLDTEST_SEED. If the test
// fails, it logs the seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with %s=%d", SeedVariable, seed)
		}
	})
	return seed
}

// recovery is how long after its fault a member is not counted as part of a quorum: it may have to start and to
// find the others again.
const recovery = time.Second

// drawer draws one schedule.
type drawer struct {
	o     ScheduleOptions
	rng   *rand.Rand
	from  []actionSpec
	steps []Step

	busy      []time.Duration          // until when a fault concerns the member
	downUntil []time.Duration          // until when the member is lost to the quorum
	busyLink  map[[2]int]time.Duration // by client and member
}

func (d *drawer) draw() Schedule {
	if len(d.from) == 0 {
		return Schedule{}
	}
	for at := d.gap(); at < d.o.Length; at += d.gap() {
		d.drawStep(at)
	}
	slices.SortStableFunc(d.steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return Schedule{Steps: d.steps}
}

// gap is a time between two faults, half to one and a half of the mean.
func (d *drawer) gap() time.Duration {
	return max(d.o.Every/2+d.upTo(d.o.Every), time.Millisecond).Round(time.Millisecond)
}

// upTo is a random whole number of milliseconds.
func (d *drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.rng.Int64N(max(most.Milliseconds(), 0)+1)) * time.Millisecond
}

// drawStep draws an action and its end. Nothing happens if what it drew is taken: a schedule need not be dense.
func (d *drawer) drawStep(at time.Duration) {
	spec := d.from[d.rng.IntN(len(d.from))]
	s := Step{At: at, Do: spec.action}
	end := min(at+d.o.Longest/10+d.upTo(d.o.Longest-d.o.Longest/10), d.o.Length)
	if spec.needs(opMember) {
		s.Member = d.rng.IntN(d.o.Members)
	}
	if spec.needs(opOther) {
		s.Other = (s.Member + 1 + d.rng.IntN(d.o.Members-1)) % d.o.Members
	}
	if spec.needs(opClient) {
		s.Client = d.rng.IntN(d.o.Clients)
	}
	if spec.needs(opDir) {
		s.Dir = []Direction{Up, Down, Both}[d.rng.IntN(3)]
	}
	if spec.needs(opDelay) {
		s.Delay, s.Jitter = d.upTo(d.o.Longest/4), d.upTo(d.o.Longest/4)
	}
	if spec.needs(opRate) {
		s.Rate = 64 << d.rng.IntN(12)
	}
	if !d.take(spec, s, end) {
		return
	}
	d.steps = append(d.steps, s)
	if spec.ends != "" {
		d.steps = append(d.steps, Step{At: end, Do: spec.ends, Client: s.Client, Member: s.Member, Other: s.Other})
	}
}

// take reserves what the fault concerns until its end, or reports false.
func (d *drawer) take(spec actionSpec, s Step, end time.Duration) bool {
	if spec.needs(opClient) {
		link := [2]int{s.Client, s.Member}
		if d.busyLink[link] > s.At {
			return false
		}
		if spec.ends != "" {
			d.busyLink[link] = end
		}
		return true
	}
	if !spec.downs {
		return true
	}
	if d.busy[s.Member] > s.At || spec.needs(opOther) && d.busy[s.Other] > s.At {
		return false
	}
	lost := 1
	for _, until := range d.downUntil {
		if until > s.At {
			lost++
		}
	}
	if d.o.KeepQuorum && lost > (d.o.Members-1)/2 {
		return false
	}
	d.busy[s.Member], d.downUntil[s.Member] = end, end+recovery
	if spec.needs(opOther) {
		d.busy[s.Other] = end // but it is not lost: it can be part of the majority
	}
	return true
}
