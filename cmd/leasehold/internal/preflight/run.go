// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"time"

	"example.com/leasehold/internal/clock"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options says what to look at.
type Options struct {
	Client  *clientv3.Client
	Config  clientv3.Config // by which clients of single endpoints are made
	Prefix  string
	TTL     time.Duration
	Margin  time.Duration
	Drift   float64
	Measure time.Duration // for how long clocks are compared; 0: not at all
	Step    time.Duration // bounds each single request
}

// Run looks at everything. It returns an error only if ctx ended; what does not work is a finding.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := new(Report)
	c := &checker{Options: o, Report: r}
	c.members(ctx)
	if c.reachable() {
		c.proxy(ctx)
		c.leases(ctx)
		c.permissions(ctx)
	}
	c.machine(ctx)
	if c.reachable() && o.Measure > 0 {
		c.rates(ctx)
	}
	c.advise()
	return r, context.Cause(ctx)
}

type checker struct {
	Options
	*Report
	election time.Duration // the longest election timeout that fits the least TTL
}

func (c *checker) reachable() bool {
	for _, m := range c.Members {
		if m.Error == "" {
			return true
		}
	}
	return false
}

// machine looks at this machine's clock and at how late it wakes a process that sleeps.
func (c *checker) machine(ctx context.Context) {
	if clock.New().CountsSuspend() {
		c.add(OK, "clock", "counts the time that this machine sleeps"+clockSource())
	} else {
		c.add(Warning, "clock", "does not count the time that this machine sleeps: a holder that slept believes for too long"+clockSource())
	}
	const naps, nap = 100, 5 * time.Millisecond
	timer := time.NewTimer(nap)
	defer timer.Stop()
	for range naps {
		start := time.Now()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		c.Wakeup = max(c.Wakeup, time.Since(start)-nap)
		timer.Reset(nap)
	}
	text := fmt.Sprintf("timers were late by up to %s in %d naps", c.Wakeup.Round(100*time.Microsecond), naps)
	switch {
	case c.Wakeup > c.Margin:
		c.add(Warning, "scheduling", text+fmt.Sprintf(": this machine is busy. The margin of %s is for such delays; a process may act later than it checked by about as much", c.Margin))
	default:
		c.add(OK, "scheduling", text)
	}
}

// advise says which TTL fits what was measured.
func (c *checker) advise() {
	if !c.reachable() || c.LeastTTL == 0 {
		return
	}
	// After a renewal two thirds of the term are left at worst. Within them, less the margin, a change of leader (two
	// election timeouts, if the first vote is split) and some tries on the way to another member must fit.
	var worst time.Duration
	for _, m := range c.Members {
		worst = max(worst, m.Worst)
	}
	need := (2*c.election + 10*worst + c.Margin + c.Wakeup) * 3 / 2
	c.AdviceTTL = max(c.LeastTTL, (need + time.Second - 1).Truncate(time.Second))
	reason := fmt.Sprintf("a change of leader takes up to two election timeouts of at most %s each, a round trip up to %s, and two thirds of the term must cover that", c.election.Round(time.Millisecond), worst.Round(100*time.Microsecond))
	switch {
	case c.TTL < c.AdviceTTL:
		c.add(Warning, "TTL", fmt.Sprintf("%s is short: below %s, holders are lost when etcd changes its leader (%s)", c.TTL, c.AdviceTTL, reason))
	default:
		c.add(OK, "TTL", fmt.Sprintf("%s fits; %s would be enough (%s). Others take over from a dead holder within %s", c.TTL, c.AdviceTTL, reason, c.TTL+time.Second))
	}
}
