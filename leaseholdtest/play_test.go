// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// After any schedule, everything works as before.
func TestPlay_RandomFaultsLeaveAHealthyCluster(t *testing.T) {
	for _, members := range []int{1, 3} {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
		clients := []*leaseholdtest.Client{c.Client(t), c.Client(t)}
		s := leaseholdtest.RandomSchedule(t, leaseholdtest.ScheduleOptions{
			Members: members, Clients: len(clients), Length: 3 * time.Second, Every: 150 * time.Millisecond, Longest: time.Second,
		})
		must(t, c.Play(within(t, long), s, clients...))
		must(t, c.Settle(within(t, long)))
		for _, cl := range clients {
			cl.ActiveConnection().ResetConnectBackoff()
			must(t, <-putting(t, cl))
			for _, l := range cl.Links() {
				if f := l.Fault(leaseholdtest.Up); f != (leaseholdtest.Fault{}) {
					t.Errorf("a fault is left: %+v", f)
				}
			}
		}
	}
}

func TestPlay_DoesWhatTheScheduleSays(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	must(t, <-putting(t, cl))
	s, err := leaseholdtest.ParseSchedule("0s hold c0 m0 down; 2s heal c0 m0; 2100ms kill m0; 2200ms restart m0")
	must(t, err)
	begin := time.Now()
	played := make(chan error, 1)
	ctx := within(t, long)
	go func() { played <- c.Play(ctx, s, cl) }()
	leaseholdtest.Eventually(t, long, "the answers are held", func() bool { return cl.Links()[0].Fault(leaseholdtest.Down).Hold })
	leaseholdtest.Eventually(t, long, "the answers are released", func() bool { return !cl.Links()[0].Fault(leaseholdtest.Down).Hold })
	if took := time.Since(begin); took < 2*time.Second {
		t.Errorf("the hold ended after %v, want 2s", took)
	}
	must(t, <-played)
	if took := time.Since(begin); took < 2200*time.Millisecond {
		t.Errorf("played in %v, want 2.2s", took)
	}
	if n := cl.Links()[0].Stats().Accepted; n < 1 {
		t.Errorf("%d connections", n)
	}
	must(t, <-putting(t, cl))
}

func TestPlay_EndedContextHeals(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	cl := c.Client(t)
	s, err := leaseholdtest.ParseSchedule("0s kill m0; 0s pause m1; 0s isolate m2; 0s blackhole c0 m1 both; 1h compact")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	played := make(chan error, 1)
	go func() { played <- c.Play(ctx, s, cl) }()
	leaseholdtest.Eventually(t, long, "the last fault is there", func() bool {
		return cl.Link(c.Member(1)).Fault(leaseholdtest.Up).Swallow
	})
	cancel()
	if err := <-played; !errors.Is(err, context.Canceled) {
		t.Errorf("Play returned %v, want %v", err, context.Canceled)
	}
	must(t, c.Settle(within(t, long)))
	must(t, <-putting(t, cl))
}

func TestPlay_RefusesAScheduleForAnotherCluster(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	for text, word := range map[string]string{
		"0s kill m1":         "1 members",
		"0s cut m0 m1":       "1 members",
		"0s hold c0 m0 both": "0 clients",
	} {
		s, err := leaseholdtest.ParseSchedule(text)
		must(t, err)
		if err := c.Play(within(t, long), s); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%q: %v, want a word of %s", text, err, word)
		}
	}
	bad := leaseholdtest.Schedule{Steps: []leaseholdtest.Step{{Do: "nonsense"}}}
	if err := c.Play(within(t, long), bad); err == nil {
		t.Error("an unknown action was played")
	}
}
