// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"example.com/leasehold"
)

// Gate is the [Guard] of resources that live in one process, or are written to by one process only. It admits writes with
// the same token side by side and keeps writes with different tokens apart: a higher token is refused to nobody and waits
// until the writes with lower ones have ended, and from its arrival on lower ones are refused.
//
// The zero value is ready for use and keeps the marks in memory, where they are lost with the process. With Marks set
// they are kept there too. Two processes with one Marks share the marks but not the gate: a write that one of them
// admitted can be overtaken by a higher token admitted by the other. Where that can happen, check in the
// transaction that writes.
//
// A Gate must not be copied after first use.
type Gate struct {
	// Marks, if not nil, keeps the marks beyond the process. It is asked at every Begin.
	Marks Marks

	mu    sync.Mutex
	doors map[string]*door
}

// door is the state of one resource, guarded by the gate's mutex.
type door struct {
	mark    leasehold.Token // the highest token seen, admitted or waiting; only rises
	inside  leasehold.Token // the token of all open admissions, if there are any
	open    int             // how many admissions are open
	users   int             // calls of Begin under way and open admissions; at zero the door may be forgotten
	emptied chan struct{}   // closed when open falls to zero, then replaced
}

// Begin implements [Guard]. A write with a lower token that never ends holds up its successor until ctx ends; give writes
// a context that ends.
func (g *Gate) Begin(ctx context.Context, resource string, token leasehold.Token) (Admission, error) {
	write := Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return nil, err
	}
	if err := g.enter(ctx, write); err != nil {
		return nil, err
	}
	admission := &gateAdmission{ctx: NewContext(ctx, write), gate: g, resource: resource}
	if g.Marks == nil {
		return admission, nil
	}
	// The mark is raised after the gate, so that the store never runs ahead of a write that is still under way here.
	if err := g.Marks.Raise(ctx, resource, token); err != nil {
		admission.Discard()
		return nil, err
	}
	return admission, nil
}

// enter returns once no write with another token is inside.
func (g *Gate) enter(ctx context.Context, w Write) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.door(w.Resource)
	d.users++
	for {
		// Asked again after every wait: a waiter that was overtaken by a still higher token is refused, whoever woke up
		// first.
		if w.Token < d.mark {
			err := &leasehold.StaleTokenError{Resource: w.Resource, Token: w.Token, Highest: d.mark}
			g.leave(w.Resource, d)
			return err
		}
		d.mark = w.Token
		if d.open == 0 || d.inside == w.Token {
			d.inside = w.Token
			d.open++
			return nil
		}
		emptied := d.emptied
		g.mu.Unlock()
		select {
		case <-emptied:
			g.mu.Lock()
		case <-ctx.Done():
			g.mu.Lock()
			g.leave(w.Resource, d)
			return fmt.Errorf("fence: wait for a write with an older token to %q: %w", w.Resource, ended(ctx))
		}
	}
}

// ended returns why ctx ended; its own error stays matchable when there is a cause as well.
func ended(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// door returns the state of resource. The mutex is held.
func (g *Gate) door(resource string) *door {
	if d, ok := g.doors[resource]; ok {
		return d
	}
	if g.doors == nil {
		g.doors = make(map[string]*door)
	}
	d := &door{emptied: make(chan struct{})}
	g.doors[resource] = d
	return d
}

// leave forgets a door that nobody uses, if its mark is kept elsewhere too. The mutex is held.
func (g *Gate) leave(resource string, d *door) {
	d.users--
	if d.users == 0 && g.Marks != nil {
		delete(g.doors, resource)
	}
}

// exit ends one admission.
func (g *Gate) exit(resource string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.doors[resource]
	d.open--
	if d.open == 0 {
		close(d.emptied)
		d.emptied = make(chan struct{})
	}
	g.leave(resource, d)
}

type gateAdmission struct {
	ctx      context.Context
	gate     *Gate
	resource string
	once     sync.Once
}

func (a *gateAdmission) Context() context.Context { return a.ctx }

func (a *gateAdmission) Commit() error {
	a.Discard()
	return nil
}

func (a *gateAdmission) Discard() {
	a.once.Do(func() { a.gate.exit(a.resource) })
}
