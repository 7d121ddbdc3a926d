// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// player plays one schedule.
type player struct {
	cluster *Cluster
	clients []*Client
}

func (p *player) member(i int) *Member { return p.cluster.members[i] }

// Play makes the schedule happen, and returns after its last step, with everything healed as by [Cluster.HealAll].
// Steps run one after another, so a slow one delays the next. The schedule's client indices mean the given clients.
// When the context ends, Play leaves out what is left of the schedule, heals, and returns the context's cause.
func (c *Cluster) Play(ctx context.Context, s Schedule, clients ...*Client) error {
	p := &player{cluster: c, clients: clients}
	if err := p.check(s); err != nil {
		return fmt.Errorf("leaseholdtest: play: %w", err)
	}
	err := p.run(ctx, s)
	if err != nil {
		err = fmt.Errorf("leaseholdtest: play: %w", err)
	}
	return errors.Join(err, c.HealAll(ctx))
}

// check refuses a schedule that is out of order or that means members and clients that there are not, before
// anything is done.
func (p *player) check(s Schedule) error {
	if _, err := s.MarshalText(); err != nil {
		return err
	}
	members, clients := len(p.cluster.members), len(p.clients)
	for i, step := range s.Steps {
		spec, err := step.Do.spec()
		if err != nil {
			return err // refused above
		}
		for _, o := range spec.operands {
			if o == opMember && step.Member >= members || o == opOther && step.Other >= members {
				return fmt.Errorf("step %d, %q: there are %d members", i+1, step, members)
			}
			if o == opClient && step.Client >= clients {
				return fmt.Errorf("step %d, %q: there are %d clients", i+1, step, clients)
			}
		}
	}
	return nil
}

func (p *player) run(ctx context.Context, s Schedule) error {
	begin := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, step := range s.Steps {
		timer.Reset(time.Until(begin.Add(step.At)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		}
		spec, err := step.Do.spec()
		if err == nil {
			err = spec.run(ctx, p, step)
		}
		if err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, step, err)
		}
	}
	return nil
}

// HealAll ends every fault: it heals the links of all open clients and between members, mends, resumes and starts
// all members, and waits until one leads. If the context has ended, it does all but wait.
func (c *Cluster) HealAll(ctx context.Context) error {
	c.mu.Lock()
	clients := make([]*Client, 0, len(c.clients))
	for cl := range c.clients {
		clients = append(clients, cl)
	}
	c.mu.Unlock()
	for _, cl := range clients {
		cl.Heal()
	}
	c.MendAll()
	for _, m := range c.members {
		m.Resume()
		m.eachPeerLink((*Link).Heal)
	}
	err := c.eachMember(func(m *Member) error {
		_, err := m.start(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return fmt.Errorf("leaseholdtest: heal: %w", err)
	}
	if ctx.Err() != nil {
		return nil
	}
	_, err = c.WaitLeader(ctx)
	return err
}
