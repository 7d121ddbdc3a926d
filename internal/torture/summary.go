// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// summary is the text that people read first.
func (v *verdict) summary(h *history) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	for _, line := range v.lines(h) {
		say("%-46s %s", line[0], line[1])
	}
	if v.failed() {
		say("\nViolations, the first twenty of each kind:")
	}
	for _, list := range [][]string{v.ToldLate, v.Tokens, v.Register, v.Stuck, v.overlapTexts(h)} {
		for _, line := range list[:min(len(list), 20)] {
			say("  %s", line)
		}
	}
	return b.String()
}

// lines are the figures, each with its name.
func (v *verdict) lines(h *history) [][2]string {
	var out [][2]string
	say := func(what, format string, args ...any) {
		out = append(out, [2]string{what, fmt.Sprintf(format, args...)})
	}
	seconds := func(from, to instant) time.Duration { return time.Duration(to - from).Round(time.Second) }
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

	result := "nothing is wrong"
	if v.failed() {
		result = "VIOLATIONS were found"
	}
	say("verdict", "%s", result)
	say("subject", "%s, TTL %v", h.Subject, h.TTL)
	say("seed", "%d", h.Seed)
	say("again", "%s", h.Command)
	say("duration", "%v while the data goes back, %v with all other faults, %v without any", seconds(h.Begin, h.Main), seconds(h.Main, h.Calm), seconds(h.Calm, h.End))
	kinds := make(map[string]int)
	for _, f := range h.Faults {
		kinds[f.Kind]++
	}
	say("faults", "%d: %s", len(h.Faults), counts(kinds))
	say("worker processes that were killed", "%d", h.Deaths)
	say("stops of processes, longer than the TTL", "%d", h.longStops())
	say("grants", "%d", v.grants)
	say("hand-overs between processes", "%d", v.handOvers)
	say("checks of a holder that said yes", "%d", h.Checks)
	failures := make(map[string]int)
	for _, a := range h.Acquires {
		failures[errorKind(a.Err)]++
	}
	say("acquires that failed", "%d: %s", len(h.Acquires), counts(failures))
	var held []string
	for _, name := range h.Names {
		held = append(held, fmt.Sprintf("%s %.0f%%", name, 100*v.held[name]))
	}
	say("held, of the time with faults", "%s", strings.Join(held, ", "))
	say("writes accepted", "%d", v.accepted)
	say("stale writes refused", "%d, and %d while the data went back", v.refused, v.refusedPast)
	say("late writes accepted, no newer one having come", "%d", v.late)
	say("reads; operations without an answer", "%d; %d", v.reads, v.unanswered)
	longest, all := v.overlapTime()
	say("OVERLAPS of beliefs", "%d, longest %v, %v in all", v.overlapsBut(true), ms(longest), ms(all))
	say("overlaps until told of an operator or rollback", "%d; longest until told %v", v.overlapsBut(false), ms(v.longestTold))
	say("told of those later than "+v.toldBound.String(), "%d", len(v.ToldLate))
	say("token regressions", "%d", len(v.Tokens))
	say("register regressions", "%d", v.wentBack)
	linear := "yes, every one"
	if v.notLinear > 0 {
		linear = fmt.Sprintf("NO: %d of %d", v.notLinear, len(h.Names))
	}
	say("registers linearizable", "%s", linear)
	say("longest time wanted and free after the faults", "%v, bound %v", ms(v.longestFree), v.freeBound)
	say("names stuck", "%d", v.stuckNames())
	return out
}

func (v *verdict) overlapTime() (longest, all time.Duration) {
	for _, o := range v.Overlaps {
		if !o.Operator {
			d := time.Duration(o.End - o.Begin)
			longest, all = max(longest, d), all+d
		}
	}
	return longest, all
}

func (v *verdict) overlapTexts(h *history) []string {
	var out []string
	for _, o := range v.Overlaps {
		if o.Operator {
			continue
		}
		x, y := h.Beliefs[o.A], h.Beliefs[o.B]
		out = append(out, fmt.Sprintf("%s: %s (token %d) and %s (token %d) for %v, from %v on", o.Name, x.ID, x.Token, y.ID, y.Token,
			time.Duration(o.End-o.Begin).Round(time.Millisecond), time.Duration(o.Begin-h.Begin).Round(time.Millisecond)))
	}
	return out
}

// longStops counts the processes that were stopped for longer than a term.
func (h *history) longStops() int {
	n := 0
	for _, f := range h.Faults {
		if (f.Kind == sigstop || f.Kind == stopBeforeWrite) && time.Duration(f.End-f.Begin) > h.TTL {
			n++
		}
	}
	return n
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}
