// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"cmp"
	"context"
	"time"
)

// ElectorConfig tunes an [Elector]. Name and OnStartedLeading are required; any other zero field means its default.
// [NewElector] refuses values out of bounds with an error that matches [ErrInvalidConfig] and lists every problem. The term, the
// prefix, the margin and the logger are those of the [Client].
type ElectorConfig struct {
	// Name is the name of the election.
	Name string

	// Value is what this replica proclaims when it leads: its identity, mostly the address under which the others and
	// their clients reach it. It need not be unique. Default: the Client's Holder. At most 256 KiB.
	Value string

	// OnStartedLeading is the work of the leader. It runs in Run's goroutine. When ctx ends it must stop and return, because nobody
	// else leads in an orderly way before it has. When it returns by itself, the leadership is given up.
	//
	// ctx ends when Run's context does, with the leadership, Grace before the local expiry if no renewal is
	// answered, on StepDown, and when Progress is missed; [context.Cause] tells which. It carries the values of Run's context
	// and the grant ([FromContext]), and its Err compares the clock itself: it is never nil after the local expiry.
	//
	// A panic is not recovered: OnStoppedLeading is called, the leadership is given back and the session closed, which is bounded
	// by a few seconds, and the panic goes on through Run.
	OnStartedLeading func(ctx context.Context, l *Leadership)

	// OnStoppedLeading, if set, is called once for each call of OnStartedLeading, after that has returned and before
	// the leadership is given back: what it does is over before a successor starts, as long as the lease lasts. Do not
	// end the process here: the successor would wait for the whole term. End it when Run has returned.
	OnStoppedLeading func()

	// OnNewLeader, if set, is told of every change of what [Elector.Leader] returns: somebody leads (this replica
	// included), the leader proclaims another value, or nobody leads, which is the zero Leader. Calls come one after another, and of
	// changes in quick succession only the last one is told. Run returns only after a call under way has.
	OnNewLeader func(Leader)

	// Grace is how long before the local expiry the context of OnStartedLeading ends if no renewal is answered: the
	// time that the work has to stop before somebody else can lead. Default a sixth of the term. At least 1 ns, at most half of what
	// is left of a term when its renewal is due, so that a short outage does not end the leadership: about 4.9 s
	// with the default term of 15 s.
	Grace time.Duration

	// Overrun says what happens when the work still runs although somebody else will be able to lead in OverrunDistance.
	// Default: [OverrunReport].
	Overrun OverrunPolicy

	// OverrunDistance is how long before the moment at which somebody else can lead at the earliest the policy takes
	// effect. Default: the Client's Margin, which is when the local expiry passes. At least 1 ns, at most Margin and
	// Grace together.
	OverrunDistance time.Duration

	// OnOverrun, if set, is called at an overrun, in a goroutine of its own. It belongs to [OverrunReport]. Run returns only after
	// it has.
	OnOverrun func(Overrun)

	// Progress is how long the work may go without calling [Leadership.Progress], from the start on and also while it
	// stops. Work that misses it counts as hung: its context ends with [ErrNoProgress] and the lease is not renewed any
	// more, so that another replica leads within a term even if the work never returns. Default 0: no such
	// deadline.
	Progress time.Duration

	// HoldOff is how long this replica stays out of the line after it has given up a leadership that it could have kept
	// ([Elector.StepDown], Progress missed, OnStartedLeading returned), unless another one leads before. Default: one term.
	HoldOff time.Duration

	// Tolerance is how long after the end of its term work may still run before [Elector.Check] calls that unhealthy.
	// Default: one term.
	Tolerance time.Duration
}

// withDefaults fills zero fields from the client's config, or returns every problem.
func (c ElectorConfig) withDefaults(client Config) (ElectorConfig, error) {
	c.Value = cmp.Or(c.Value, client.Holder)
	c.Grace = cmp.Or(c.Grace, min(client.TTL/6, maxGrace(client)))
	c.OverrunDistance = cmp.Or(c.OverrunDistance, client.Margin)
	c.HoldOff = cmp.Or(c.HoldOff, client.TTL)
	c.Tolerance = cmp.Or(c.Tolerance, client.TTL)
	return c, c.validate(client)
}

// maxGrace is half of what is left of a term when its renewal is due: the other half is for the tries to renew it.
func maxGrace(client Config) time.Duration {
	a := allowance{drift: client.DriftBound, margin: client.Margin}
	return (a.held(client.TTL) - a.renewAfter(client.TTL, 0)) / 2
}

func (c ElectorConfig) validate(client Config) error {
	var problems problems
	bad := problems.add
	if err := checkName(c.Name); err != nil {
		bad("Name: %w", err)
	}
	if len(c.Value) > maxValueBytes {
		bad("Value of %d bytes: want at most %d", len(c.Value), maxValueBytes)
	}
	if c.OnStartedLeading == nil {
		bad("OnStartedLeading is nil")
	}
	if most := maxGrace(client); c.Grace < 1 || c.Grace > most {
		bad("Grace %v: want 1ns to %v, half of what is left of a term of %v when its renewal is due", c.Grace, most, client.TTL)
	}
	if c.Overrun != OverrunReport && c.Overrun != OverrunExit {
		bad("Overrun %d: want OverrunReport or OverrunExit", c.Overrun)
	}
	if c.Overrun == OverrunExit && c.OnOverrun != nil {
		bad("OnOverrun with OverrunExit: the process ends without a call that could keep it")
	}
	if most := client.Margin + max(c.Grace, 0); c.OverrunDistance < 1 || c.OverrunDistance > most {
		bad("OverrunDistance %v: want 1ns to %v, Margin and Grace together", c.OverrunDistance, most)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"Progress", c.Progress}, {"HoldOff", c.HoldOff}, {"Tolerance", c.Tolerance}} {
		if d.value < 0 {
			bad("%s %v: want 0 or more", d.name, d.value)
		}
	}
	return problems.err()
}
