// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"
)

// verdict is what the checks say.
type verdict struct {
	Overlaps  []overlap
	Tokens    []string // places where tokens do not rise
	Register  []string // what is wrong with the registers
	Stuck     []string // times for which a name was wanted and not granted, after the faults
	ToldLate  []string // holders who were not told of an operator in time
	toldBound time.Duration
	freeBound time.Duration

	grants, handOvers           int
	accepted, reads, unanswered int
	refused, refusedPast        int // stale writes; those while the data went back by themselves
	late                        int // writes after their holder's belief that were accepted, because no newer holder had written
	longestTold                 time.Duration
	held                        map[string]float64 // the part of the time with faults for which a name was held
	longestFree                 time.Duration      // after the faults
	wentBack, notLinear         int                // registers' operations, registers
	stuck                       map[string]bool
}

// overlap is a time for which two believed in one name.
type overlap struct {
	Name       string
	A, B       int // indices into the beliefs; A began first
	Begin, End instant
	Operator   bool // the one who should have stopped had been taken away by an operator, or the data had gone back: see excused
}

func (o options) check(h *history) *verdict {
	v := &verdict{
		// A holder hears of the operator by its watch, which may have to find another member first, or else its term ends.
		toldBound: 2*o.ttl + 2*time.Second,
		// A dead holder's lease runs out, and the cluster finds its leader.
		freeBound: o.ttl + 7*time.Second,
		held:      make(map[string]float64),
		stuck:     make(map[string]bool),
	}
	for _, name := range h.Names {
		line := h.of(name)
		v.grants += len(line)
		v.overlaps(h, name, line)
		v.tokens(h, name, line)
		v.busy(h, name, line)
		v.free(h, name, line)
	}
	v.told(h)
	v.registers(h)
	return v
}

func (v *verdict) failed() bool {
	return v.overlapsBut(true) > 0 || len(v.Tokens)+len(v.Register)+len(v.Stuck)+len(v.ToldLate) > 0
}

// overlapsBut counts overlaps, those that an operator excuses left out or counted alone.
func (v *verdict) overlapsBut(operator bool) int {
	n := 0
	for _, o := range v.Overlaps {
		if o.Operator != operator {
			n++
		}
	}
	return n
}

func (v *verdict) stuckNames() int { return len(v.stuck) }

// of returns the indices of the beliefs in a name, in the order in which they began.
func (h *history) of(name string) []int {
	var line []int
	for i, b := range h.Beliefs {
		if b.Name == name && b.First > 0 {
			line = append(line, i)
		}
	}
	slices.SortFunc(line, func(i, j int) int { return int(h.Beliefs[i].First - h.Beliefs[j].First) })
	return line
}

func (v *verdict) overlaps(h *history, name string, line []int) {
	var open []int // may still last
	for n, j := range line {
		b := h.Beliefs[j]
		if n > 0 && h.Beliefs[line[n-1]].Worker != b.Worker {
			v.handOvers++
		}
		open = slices.DeleteFunc(open, func(i int) bool { return h.Beliefs[i].end() < b.First })
		for _, i := range open {
			a := h.Beliefs[i]
			o := overlap{Name: name, A: i, B: j, Begin: b.First, End: min(a.end(), b.end())}
			o.Operator = h.excused(a, b)
			v.Overlaps = append(v.Overlaps, o)
		}
		open = append(open, j)
	}
}

// excused reports whether two may believe at once, for a while: etcd let the newer one in because an operator had taken the key of the
// older one, before the newer one had it; or the data went back under one of them, and the other came after. What an operator
// took of the newer one excuses nothing.
func (h *history) excused(a, b belief) bool {
	older, newer := a, b
	if newer.Token < older.Token {
		older, newer = newer, older
	}
	if older.Token != newer.Token {
		if _, ok := h.takenAway(older, newer.First); ok {
			return true
		}
	}
	return slices.ContainsFunc(h.Faults, func(f fault) bool {
		across := func(b belief) bool { return b.Asked <= f.End && f.Begin <= b.end() }
		return f.Rewind && (across(a) && b.First >= f.Begin || across(b) && a.First >= f.Begin)
	})
}

// takenAway returns the first fault of an operator that hit a belief before an instant.
func (h *history) takenAway(b belief, before instant) (fault, bool) {
	for _, f := range h.Faults {
		if f.Begin < b.Asked || f.Begin > min(before, b.end()) {
			continue
		}
		same := f.Created == 0 || b.Created == 0 || f.Created == b.Created
		if slices.Contains(f.Keys, b.Key) && same || f.Lease != 0 && f.Lease == b.Lease {
			return f, true
		}
	}
	return fault{}, false
}

// voided returns the first fault that ended what a belief was about: an operator's, or one of the data.
func (h *history) voided(b belief) (fault, bool) {
	f, ok := h.takenAway(b, b.Last)
	for _, g := range h.Faults {
		if g.Rewind && b.First < g.Begin && g.Begin <= b.Last && (!ok || g.Begin < f.Begin) {
			return g, true
		}
	}
	return f, ok
}

// told looks for holders who believed for long after an operator had taken their key, or the data had gone back.
func (v *verdict) told(h *history) {
	for _, b := range h.Beliefs {
		f, ok := h.voided(b)
		if !ok || f.Kind == "take back" {
			continue
		}
		late := time.Duration(b.Last - f.End)
		v.longestTold = max(v.longestTold, late)
		if late > v.toldBound {
			v.ToldLate = append(v.ToldLate, fmt.Sprintf("%s, %s: %v after %s", b.ID, b.Key, late, f.What))
		}
	}
}

// tokens looks for those that do not rise. Where the data goes back, tokens may begin anew: a process that has seen less of the store
// than others cannot know what they were given.
func (v *verdict) tokens(h *history, name string, line []int) {
	highest := belief{}
	for _, j := range line {
		b := h.Beliefs[j]
		if slices.ContainsFunc(h.Faults, func(f fault) bool { return f.Rewind && f.Begin <= b.First && highest.Asked <= f.End }) {
			if !h.across(b) {
				highest = b
			}
			continue
		}
		if b.Token <= highest.Token {
			v.Tokens = append(v.Tokens, fmt.Sprintf("%s: token %d of %s after %d of %s", name, b.Token, b.ID, highest.Token, highest.ID))
			continue
		}
		highest = b
	}
}

// across reports whether the data went back between the call and the beginning of a belief: it is not known on which side it began.
func (h *history) across(b belief) bool {
	return slices.ContainsFunc(h.Faults, func(f fault) bool { return f.Rewind && b.Asked <= f.End && f.Begin <= b.First })
}

// busy adds up for how much of the time with faults a name was held.
func (v *verdict) busy(h *history, name string, line []int) {
	var busy time.Duration
	covered := h.Main
	for _, j := range line {
		b := h.Beliefs[j]
		if from, to := max(b.First, covered), min(b.Last, h.Calm); to > from {
			busy += time.Duration(to - from)
			covered = to
		}
	}
	v.held[name] = float64(busy) / float64(max(1, h.Calm-h.Main))
}

// free looks at how long a name was wanted and nobody held it, after the faults.
func (v *verdict) free(h *history, name string, line []int) {
	since := h.Calm
	wanted := h.wanted(name)
	gap := func(until instant) {
		from := until // nobody wants it
		for _, w := range wanted {
			if w[0] < until && w[1] > since {
				from = min(from, max(w[0], since))
			}
		}
		d := time.Duration(until - from)
		v.longestFree = max(v.longestFree, d)
		if d > v.freeBound {
			v.stuck[name] = true
			v.Stuck = append(v.Stuck, fmt.Sprintf("%s: nobody held it for %v, from %v after the faults", name, d, time.Duration(from-h.Calm)))
		}
	}
	for _, j := range line {
		b := h.Beliefs[j]
		if b.Last > since {
			if b.First > since {
				gap(min(b.First, h.End))
			}
			since = b.Last
		}
	}
	if since < h.End {
		gap(h.End)
	}
}

// wanted returns the times during which somebody waited for a name.
func (h *history) wanted(name string) [][2]instant {
	var out [][2]instant
	for _, b := range h.Beliefs {
		if b.Name == name && b.First > 0 {
			out = append(out, [2]instant{b.Asked, b.First})
		}
	}
	for _, a := range h.Acquires {
		if a.Name == name {
			out = append(out, [2]instant{a.Asked, a.Until})
		}
	}
	return out
}
