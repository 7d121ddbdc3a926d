// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"slices"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/timeline"
	"example.com/leasehold/internal/machineclock"
)

// record is what was measured, for the expectations and for the picture. It belongs to the story's goroutine.
type record struct {
	start   machineclock.Instant
	workers []string
	pids    []int
	beliefs []belief // in order of their beginnings
	waits   []stretch
	stops   []stretch
	members []member
	events  []moment
}

// belief is one grant in its holder's eyes.
type belief struct {
	worker int
	token  leasehold.Token
	from   machineclock.Instant
	expiry machineclock.Instant // the latest that the holder has reported
	ended  machineclock.Instant // when it let go or noticed; 0: neither
}

// to returns when the holder's own check began to say no: at its expiry, or earlier if it let go itself.
func (b belief) to() machineclock.Instant {
	if b.ended != 0 {
		return min(b.ended, b.expiry)
	}
	return b.expiry
}

// stretch is something that began and ended; an end of 0 means that it goes on.
type stretch struct {
	lane     int
	from, to machineclock.Instant
}

// member is an etcd member's lane.
type member struct {
	name  string
	leads []stretch
	down  machineclock.Instant // 0: it runs
}

// moment is an event of the picture.
type moment struct {
	at   machineclock.Instant
	lane lane
	text string
}

// lane names a row of the picture without counting rows: a worker's, the register's or a member's.
type lane struct {
	kind  laneKind
	index int
}

type laneKind int

const (
	laneWorker laneKind = iota
	laneRegister
	laneEtcd
)

func (r *record) row(l lane) int {
	switch l.kind {
	case laneRegister:
		return len(r.workers)
	case laneEtcd:
		return len(r.workers) + 1 + l.index
	default:
		return l.index
	}
}

func (r *record) note(at machineclock.Instant, l lane, format string, args ...any) {
	r.events = append(r.events, moment{at, l, fmt.Sprintf(format, args...)})
}

// current returns the worker's latest belief, or nil.
func (r *record) current(worker int) *belief {
	for i := len(r.beliefs) - 1; i >= 0; i-- {
		if r.beliefs[i].worker == worker {
			return &r.beliefs[i]
		}
	}
	return nil
}

// led notes that member leads from at on, or with -1 that nobody does.
func (r *record) led(member int, at machineclock.Instant) {
	for i := range r.members {
		leads := r.members[i].leads
		open := len(leads) > 0 && leads[len(leads)-1].to == 0
		switch {
		case i == member && !open:
			r.members[i].leads = append(leads, stretch{from: at})
		case i != member && open:
			leads[len(leads)-1].to = at
		}
	}
}

// leader returns the member that leads as far as it is known, or -1.
func (r *record) leader() int {
	return slices.IndexFunc(r.members, func(m member) bool {
		return len(m.leads) > 0 && m.leads[len(m.leads)-1].to == 0
	})
}

// closest returns the shortest time between the end of one belief and the beginning of the next; below zero, two
// processes believed at the same time.
func (r *record) closest() (time.Duration, bool) {
	if len(r.beliefs) < 2 {
		return 0, false
	}
	sorted := slices.SortedFunc(slices.Values(r.beliefs), func(a, b belief) int { return int(a.from - b.from) })
	closest, end := time.Duration(1<<63-1), sorted[0].to()
	for _, b := range sorted[1:] {
		closest = min(closest, b.from.Sub(end))
		end = max(end, b.to())
	}
	return closest, true
}

// picture draws all of it up to end.
func (r *record) picture(title, subtitle string, writes []write, end machineclock.Instant) timeline.Picture {
	at := func(i machineclock.Instant) time.Duration {
		if i == 0 || i > end {
			i = end
		}
		return max(i.Sub(r.start), 0)
	}
	p := timeline.Picture{Title: title, Subtitle: subtitle, Length: at(end)}
	for i, name := range r.workers {
		l := timeline.Lane{Name: name, Note: fmt.Sprintf("process %d", r.pids[i])}
		for _, s := range r.waits {
			if s.lane == i {
				l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Waits, From: at(s.from), To: at(s.to)})
			}
		}
		for _, b := range r.beliefs {
			if b.worker == i {
				l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Believes, From: at(b.from), To: at(b.to()), Label: "token " + b.token.String(), Hue: i + 1})
			}
		}
		for _, s := range r.stops {
			if s.lane == i {
				l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Stopped, From: at(s.from), To: at(s.to)})
			}
		}
		p.Lanes = append(p.Lanes, l)
	}
	p.Lanes = append(p.Lanes, registerLane(writes, at, end))
	for _, m := range r.members {
		p.Lanes = append(p.Lanes, memberLane(m, at, end))
	}
	for _, e := range r.events {
		p.Events = append(p.Events, timeline.Event{At: at(e.at), Lane: r.row(e.lane), Text: e.text})
	}
	return p
}

func registerLane(writes []write, at func(machineclock.Instant) time.Duration, end machineclock.Instant) timeline.Lane {
	l := timeline.Lane{Name: "register", Note: "checks tokens"}
	for _, w := range writes {
		l.Ticks = append(l.Ticks, timeline.Tick{At: at(w.at), Refused: w.refused != nil, Hue: w.worker + 1})
		if w.refused != nil {
			continue
		}
		n := len(l.Spans)
		if n > 0 && l.Spans[n-1].Label == w.token.String() {
			continue
		}
		if n > 0 {
			l.Spans[n-1].To = at(w.at)
		}
		l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Accepts, From: at(w.at), To: at(end), Label: w.token.String(), Hue: w.worker + 1})
	}
	return l
}

func memberLane(m member, at func(machineclock.Instant) time.Duration, end machineclock.Instant) timeline.Lane {
	l := timeline.Lane{Name: "etcd " + m.name}
	l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Follows, To: at(m.down)})
	for _, s := range m.leads {
		l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Leads, From: at(s.from), To: at(s.to), Label: "leads"})
	}
	if m.down != 0 {
		l.Spans = append(l.Spans, timeline.Span{Kind: timeline.Down, From: at(m.down), To: at(end), Label: "stopped"})
	}
	return l
}
