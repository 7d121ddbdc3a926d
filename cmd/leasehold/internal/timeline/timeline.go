// SPDX-License-Identifier: Apache-2.0

// Package timeline draws who was what when: lanes of spans over one axis of seconds, with lettered events and their
// explanations below. The same [Picture] is drawn for a terminal ([Picture.Text]) and as a file ([Picture.SVG]).
//
// A Picture is a value. Drawing does not change it and is safe for concurrent use.
package timeline

import (
	"slices"
	"strings"
	"time"
)

// Kind says what a span stands for; it chooses colour and shape.
type Kind int

// The kinds of spans. A later span of a lane is drawn over an earlier one.
const (
	Waits    Kind = iota + 1 // in line, holding nothing
	Believes                 // its own check would have said: the lock is mine
	Stopped                  // the process could not run; drawn over what it believed
	Accepts                  // the resource has seen this token and takes it from now on
	Leads                    // the etcd member that leads, and so times the leases
	Follows                  // an etcd member that runs but does not lead
	Down                     // an etcd member that does not run
)

// Span is a stretch of one lane. Its ends are offsets from the picture's start.
type Span struct {
	Kind     Kind
	From, To time.Duration
	Label    string // written into the span where it fits
	Hue      int    // whose colour it takes: 0 for neutral, 1 to 3 for the actors
}

// Tick is an instant of one lane: a write that was accepted, or one that was refused.
type Tick struct {
	At      time.Duration
	Refused bool
	Hue     int
}

// Lane is one actor's row.
type Lane struct {
	Name  string
	Note  string // a word or two below the name, in the file only
	Spans []Span
	Ticks []Tick
}

// visible returns where the i-th span of the lane ends for the eye: at its end, or where a later one covers it.
func (l Lane) visible(i int) time.Duration {
	end := l.Spans[i].To
	for _, over := range l.Spans[i+1:] {
		if over.From >= l.Spans[i].From && over.To > l.Spans[i].From {
			end = min(end, over.From)
		}
	}
	return end
}

// shortest returns the label, or its last word if only that fits, or nothing.
func (s Span) shortest(fits func(string) bool) string {
	for _, text := range []string{s.Label, s.Label[strings.LastIndexByte(s.Label, ' ')+1:]} {
		if text != "" && fits(text) {
			return text
		}
	}
	return ""
}

// Event is an instant worth a sentence. It gets the next letter in order of time.
type Event struct {
	At   time.Duration
	Lane int // index of the lane that it happened to
	Text string
}

// Picture is everything that is drawn.
type Picture struct {
	Title    string
	Subtitle string
	Length   time.Duration
	Lanes    []Lane
	Events   []Event // at most 26, in any order
}

// letters returns the events in order of time; the i-th one has the i-th letter.
func (p Picture) letters() []Event {
	events := slices.Clone(p.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.At - b.At) })
	return events[:min(len(events), 26)]
}

// step returns a distance of axis marks, 1, 2 or 5 times a power of ten seconds, that gives at most n marks.
func (p Picture) step(n int) time.Duration {
	step := 100 * time.Millisecond
	for i := 0; p.Length/step > time.Duration(max(n, 1)); i++ {
		if i%3 == 1 {
			step = step * 5 / 2
		} else {
			step *= 2
		}
	}
	return step
}

// kinds returns the kinds that occur, for the legend, in the order of their declaration.
func (p Picture) kinds() []Kind {
	var seen [Down + 1]bool
	for _, lane := range p.Lanes {
		for _, s := range lane.Spans {
			seen[s.Kind] = true
		}
	}
	var kinds []Kind
	for k := Waits; k <= Down; k++ {
		if seen[k] {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func (k Kind) legend() string {
	switch k {
	case Waits:
		return "waits in line"
	case Believes:
		return "believes that it holds (token)"
	case Stopped:
		return "stopped process"
	case Accepts:
		return "register accepts this token"
	case Leads:
		return "etcd leader"
	case Follows:
		return "etcd follower"
	case Down:
		return "etcd member stopped"
	}
	return ""
}
