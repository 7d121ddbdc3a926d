// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// verdict is what the checks say.
type verdict struct {
	Overlaps  []overlap
	Tokens    []string // places where tokens do not rise
	Register  []string // what is wrong with the registers
	Stuck     []string // names that were not granted in time after the faults
	ToldLate  []string // holders who were not told of an operator in time
	toldBound time.Duration
	freeBound time.Duration

	grants, handOvers, accepted, refused, reads, unanswered int
	longestTold                                             time.Duration
	held                                                    map[string]float64 // the part of the time with faults for which a name was held
	longestFree                                             time.Duration      // after the faults
}

// overlap is a time for which two believed in one name.
type overlap struct {
	Name       string
	A, B       int // indices into the beliefs; A began first
	Begin, End instant
	Operator   bool // one of the two had been taken away by an operator and not been told yet
}

func (o options) check(h *history) *verdict {
	v := &verdict{
		// A holder hears of the operator by its watch, which may have to find another member first, or else its term ends.
		toldBound: 2*o.ttl + 2*time.Second,
		// A dead holder's lease runs out, and the cluster finds its leader.
		freeBound: o.ttl + 7*time.Second,
		held:      make(map[string]float64),
	}
	for _, name := range h.Names {
		line := h.of(name)
		v.grants += len(line)
		v.overlaps(h, name, line)
		v.tokens(h, name, line)
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
		open = slices.DeleteFunc(open, func(i int) bool { return h.Beliefs[i].Last < b.First })
		for _, i := range open {
			a := h.Beliefs[i]
			o := overlap{Name: name, A: i, B: j, Begin: b.First, End: min(a.Last, b.Last)}
			_, taken := h.takenAway(a, o.Begin)
			_, takenB := h.takenAway(b, o.End)
			o.Operator = taken || takenB
			v.Overlaps = append(v.Overlaps, o)
		}
		open = append(open, j)
	}
}

// takenAway returns the first fault of an operator that hit a belief before an instant.
func (h *history) takenAway(b belief, before instant) (fault, bool) {
	for _, f := range h.Faults {
		if f.Begin < b.Asked || f.Begin > min(before, b.Last) {
			continue
		}
		if slices.Contains(f.Keys, b.Key) || f.Lease != 0 && f.Lease == b.Lease {
			return f, true
		}
	}
	return fault{}, false
}

// told looks for holders who believed for long after an operator had taken their key.
func (v *verdict) told(h *history) {
	for _, b := range h.Beliefs {
		f, ok := h.takenAway(b, b.Last)
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

func (v *verdict) tokens(h *history, name string, line []int) {
	highest := belief{}
	for _, j := range line {
		b := h.Beliefs[j]
		if b.Token <= highest.Token {
			v.Tokens = append(v.Tokens, fmt.Sprintf("%s: token %d of %s after %d of %s", name, b.Token, b.ID, highest.Token, highest.ID))
			continue
		}
		highest = b
	}
}

// free looks at how long nobody held a name: how much of the time with faults, and what was the longest after it.
func (v *verdict) free(h *history, name string, line []int) {
	var busy time.Duration
	covered := h.Begin
	since := h.Calm
	gap := func(until instant) {
		d := time.Duration(until - since)
		v.longestFree = max(v.longestFree, d)
		if d > v.freeBound {
			v.Stuck = append(v.Stuck, fmt.Sprintf("%s: nobody held it for %v, from %v after the faults", name, d, time.Duration(since-h.Calm)))
		}
	}
	for _, j := range line {
		b := h.Beliefs[j]
		if from, to := max(b.First, covered), min(b.Last, h.Calm); to > from {
			busy += time.Duration(to - from)
			covered = to
		}
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
	v.held[name] = float64(busy) / float64(max(1, h.Calm-h.Begin))
}

// summary is the text that people read first.
func (v *verdict) summary(h *history) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("subject %s, seed %d: %v with faults, %v without", h.Subject, h.Seed, time.Duration(h.Calm-h.Begin).Round(time.Second), time.Duration(h.End-h.Calm).Round(time.Second))
	kinds := make(map[string]int)
	for _, f := range h.Faults {
		kinds[f.Kind]++
	}
	say("faults: %d: %s", len(h.Faults), counts(kinds))
	say("worker processes that were killed: %d", h.Deaths)
	failures := make(map[string]int)
	for _, a := range h.Acquires {
		failures[errorKind(a.Err)]++
	}
	say("grants: %d, hand-overs between workers: %d, acquires that failed: %d: %s", v.grants, v.handOvers, len(h.Acquires), counts(failures))
	var held []string
	for _, name := range h.Names {
		held = append(held, fmt.Sprintf("%s %.0f%%", name, 100*v.held[name]))
	}
	say("held during the faults: %s", strings.Join(held, ", "))
	say("writes accepted: %d, stale writes refused: %d, reads: %d, unanswered: %d", v.accepted, v.refused, v.reads, v.unanswered)
	var longest, all time.Duration
	for _, o := range v.Overlaps {
		if !o.Operator {
			longest, all = max(longest, time.Duration(o.End-o.Begin)), all+time.Duration(o.End-o.Begin)
		}
	}
	say("overlaps of beliefs: %d, longest %v, %v in all", v.overlapsBut(true), longest.Round(time.Millisecond), all.Round(time.Millisecond))
	say("overlaps with a holder who had not yet been told of an operator: %d; longest until told: %v", v.overlapsBut(false), v.longestTold.Round(time.Millisecond))
	say("holders told of an operator after more than %v: %d", v.toldBound, len(v.ToldLate))
	say("tokens that do not rise: %d", len(v.Tokens))
	say("registers that go back or are not linearizable: %d", len(v.Register))
	say("names free for longer than %v after the faults: %d (longest %v)", v.freeBound, len(v.Stuck), v.longestFree.Round(time.Millisecond))
	for _, list := range [][]string{v.ToldLate, v.Tokens, v.Register, v.Stuck} {
		for _, line := range list[:min(len(list), 20)] {
			say("  %s", line)
		}
	}
	n := 0
	for _, o := range v.Overlaps {
		if n++; n <= 20 && !o.Operator {
			x, y := h.Beliefs[o.A], h.Beliefs[o.B]
			say("  %s: %s (token %d) and %s (token %d) for %v, from %v on", o.Name, x.ID, x.Token, y.ID, y.Token,
				time.Duration(o.End-o.Begin).Round(time.Millisecond), time.Duration(o.Begin-h.Begin).Round(time.Millisecond))
		}
	}
	return b.String()
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}
