// SPDX-License-Identifier: Apache-2.0

// Package board follows all lines under a prefix and tells what changes: who got a name, who waits, who left.
package board

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Kind is what has happened.
type Kind int

// The kinds of changes.
const (
	Holds  Kind = iota + 1 // somebody is first in line now
	Waits                  // somebody has got in line behind others
	Left                   // somebody has left the line without having held
	Freed                  // nobody holds the name any more
	Speaks                 // the first one has changed its value: a leader has proclaimed another
	Stray                  // a key under the prefix that stands in no line
)

// Change is one line of news.
type Change struct {
	At       time.Time
	Kind     Kind
	Name     string
	Place    lines.Place
	Position int         // with Waits: how many are before it
	Before   lines.Place // with Holds and Freed: who held it until now; zero if nobody did
}

// Standing is a name's line at the moment, with the time since which its first one is known to hold. Since is exact if the
// board has seen it come first; otherwise it may have held for longer.
type Standing struct {
	lines.Line
	Since time.Time
	Exact bool
}

// Board is the lines as of the last change. It belongs to one goroutine.
type Board struct {
	prefix string
	lines  map[string]*Standing
	events bool // what is taken in comes from a watch, at the time at which it happens
}

// New returns an empty board for the keys below prefix.
func New(prefix string) *Board { return &Board{prefix: prefix, lines: make(map[string]*Standing)} }

// Standings returns the lines in the order of their names.
func (b *Board) Standings() []Standing {
	var all []Standing
	for _, s := range b.lines {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(x, y Standing) int { return cmp.Compare(x.Name, y.Name) })
	return all
}

// Follow reads the lines of the names that begin with namePrefix, and then what changes, and calls news for each. It survives
// compaction and broken watches by reading all again, and returns when ctx ends, or with an error that will not pass. The first
// read is bounded by patience.
func (b *Board) Follow(ctx context.Context, c *clientv3.Client, namePrefix string, patience time.Duration, news func(Change)) error {
	pause := 100 * time.Millisecond
	for first := true; ; first = false {
		revision, err := b.read(ctx, c, namePrefix, patience, news)
		if err == nil {
			pause = 100 * time.Millisecond
			err = b.watch(ctx, c, namePrefix, revision, news)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first && err != nil && !errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrPermissionDenied) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, 5*time.Second)
	}
}

// read replaces the board by what is there, and tells the difference.
func (b *Board) read(ctx context.Context, c *clientv3.Client, namePrefix string, patience time.Duration, news func(Change)) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	listing, err := lines.Read(ctx, c, b.prefix, namePrefix)
	if err != nil {
		return 0, err
	}
	b.events = false
	now := time.Now()
	present := make(map[string]bool)
	for _, line := range listing.Lines {
		present[line.Name] = true
		b.become(line.Name, line.Places, now, news)
	}
	for name := range b.lines {
		if !present[name] {
			b.become(name, nil, now, news)
		}
	}
	for _, p := range listing.Strays {
		news(Change{At: now, Kind: Stray, Place: p})
	}
	return listing.Revision, nil
}

func (b *Board) watch(ctx context.Context, c *clientv3.Client, namePrefix string, revision int64, news func(Change)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range c.Watch(ctx, lines.Below(b.prefix, namePrefix), clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		if err := resp.Err(); err != nil {
			return err
		}
		b.events = true
		for _, ev := range resp.Events {
			b.apply(ev, news)
		}
	}
	return ctx.Err()
}

// apply changes one line by one event.
func (b *Board) apply(ev *clientv3.Event, news func(Change)) {
	now := time.Now()
	name, place, ok := lines.Parse(b.prefix, (*mvccpb.KeyValue)(ev.Kv))
	if !ok {
		if ev.Type == mvccpb.Event_PUT {
			news(Change{At: now, Kind: Stray, Place: place})
		}
		return
	}
	var places []lines.Place
	if s := b.lines[name]; s != nil {
		places = slices.Clone(s.Places)
	}
	places = slices.DeleteFunc(places, func(p lines.Place) bool { return p.Key == place.Key })
	if ev.Type == mvccpb.Event_PUT {
		places = append(places, place)
		slices.SortFunc(places, func(x, y lines.Place) int { return cmp.Compare(x.Token, y.Token) })
	}
	b.become(name, places, now, news)
}

// become replaces a line, and then tells how it differs, so that who is told finds the board as it is now.
func (b *Board) become(name string, places []lines.Place, now time.Time, news func(Change)) {
	var before []lines.Place
	since, exact := now, b.events
	if old := b.lines[name]; old != nil {
		before = old.Places
		if first(before).Token == first(places).Token {
			since, exact = old.Since, old.Exact
		}
	}
	if len(places) > 0 {
		b.lines[name] = &Standing{lines.Line{Name: name, Places: places}, since, exact}
	} else {
		delete(b.lines, name)
	}

	was, is := first(before), first(places)
	for _, p := range before {
		if p.Token != was.Token && !has(places, p.Token) {
			news(Change{At: now, Kind: Left, Name: name, Place: p})
		}
	}
	switch {
	case is.Token == was.Token && is.Value != was.Value:
		news(Change{At: now, Kind: Speaks, Name: name, Place: is})
	case is.Token == was.Token:
	case is.Token == 0:
		news(Change{At: now, Kind: Freed, Name: name, Place: was, Before: was})
	default:
		news(Change{At: now, Kind: Holds, Name: name, Place: is, Before: was})
	}
	for i, p := range places {
		if i > 0 && !has(before, p.Token) {
			news(Change{At: now, Kind: Waits, Name: name, Place: p, Position: i})
		}
	}
}

// first returns who holds, or nobody.
func first(places []lines.Place) lines.Place {
	if len(places) == 0 {
		return lines.Place{}
	}
	return places[0]
}

func has(places []lines.Place, t leasehold.Token) bool {
	return slices.ContainsFunc(places, func(p lines.Place) bool { return p.Token == t })
}
