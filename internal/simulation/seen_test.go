// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// The tests in this file show that the judge can see: they break what the SDK relies on, and the judge must say so.

// kinds returns which invariants were violated.
func (r Report) kinds() []string {
	var kinds []string
	for _, v := range r.Violations {
		if !slices.Contains(kinds, v.Kind) {
			kinds = append(kinds, v.Kind)
		}
	}
	return kinds
}

func parse(t *testing.T, text string) Plan {
	t.Helper()
	p, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A clock beyond the bound breaks the formula in every schedule, whatever else happens in it: far beyond, and just beyond. A grantor
// that is fast by all that the bound allows, and half a percent more, is seen by the first look at a lease.
func TestJudge_SeesDriftBeyondTheBound(t *testing.T) {
	const rho = 0.01
	grants := 0
	for _, beyond := range []float64{1.005, 1.1} {
		for seed := range uint64(8) {
			p := New(seed)
			w := &p.World
			w.Drift, w.Margin = rho, time.Nanosecond
			w.Rate = beyond * (1 + rho) / (1 - rho)
			w.TTL = max(w.TTL, 5*time.Second) // half a percent of it is 25ms
			// What makes requests slow makes holders more careful than they need be.
			w.Delay, w.Commit, w.Peer, w.Apply, w.Stall = 50*time.Microsecond, time.Millisecond, 10*time.Microsecond, 0, 0
			p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.Do == Rate })
			report := watched(t, p)
			grants += report.Stats.Grants
			if report.Stats.Grants > 0 && !slices.Contains(report.kinds(), "expiry") {
				t.Errorf("seed %d: the grantor's clock runs %g times as fast as the holders', beyond the %g that a drift bound of %g allows; %d grants were made, and the judge saw no expiry that is too late, only %v",
					seed, w.Rate, (1+rho)/(1-rho), rho, report.Stats.Grants, report.kinds())
			}
		}
	}
	if grants == 0 {
		t.Error("no grant was made: what was to be seen did not happen")
	}
}

// lost is a holder that is cut off, and a waiter.
const lost = `
world seed=1 members=3 hosts=2 names=1 ttl=10s drift=0.001 margin=100ms rate=%g election=1s commit=1ms apply=0s peer=1ms delay=1ms stall=0s waits=false flaw=none
0s lock host=0 user=1 name=0 wait=1s for=1m
1s cut host=0 dir=both for=30s
2s lock host=1 user=1 name=0 wait=30s for=20s
`

func TestJudge_SeesTwoHoldersUnderAGrantorThatIsTooFast(t *testing.T) {
	report := watched(t, parse(t, fmt.Sprintf(lost, 1.5)))
	for _, kind := range []string{"expiry", "freed", "two holders"} {
		if !slices.Contains(report.kinds(), kind) {
			t.Errorf("%q was not seen; only %v", kind, report.kinds())
		}
	}
}

func TestJudge_IsContentWithAGrantorAtTheBound(t *testing.T) {
	report := watched(t, parse(t, fmt.Sprintf(lost, (1+1e-3)/(1-1e-3))))
	if report.Failed() || report.Stats.Losses["expired"] != 1 || report.Stats.Grants != 3 {
		t.Errorf("%v\nwant no violation, one grant lost, and one for the waiter and the newcomer\n%v", report, report.Stats)
	}
}

// A leader that is cut off and goes on acknowledging renewals, as etcd before 3.4.31 and 3.5.13 could, breaks what every lease
// holder relies on.
const formerLeader = `
world seed=1 members=3 hosts=2 names=1 ttl=5s drift=0.001 margin=100ms rate=1 election=1s commit=1ms apply=0s peer=1ms delay=1ms stall=0s waits=false flaw=%s
0s hold host=0 member=1 dir=both for=40s
0s hold host=0 member=2 dir=both for=40s
500ms lock host=0 user=1 name=0 wait=10s for=1m
3s isolate member=0 for=30s
4s lock host=1 user=1 name=0 wait=30s for=20s
`

func TestJudge_SeesANameFreedUnderItsHolderByAFormerLeaderThatRenews(t *testing.T) {
	report := watched(t, parse(t, fmt.Sprintf(formerLeader, "formerleader")))
	if !slices.Contains(report.kinds(), "freed") {
		t.Errorf("it was not seen; only %v", report.kinds())
	}
	if report := watched(t, parse(t, fmt.Sprintf(formerLeader, "none"))); report.Failed() {
		t.Errorf("with a leader that steps down: %v", report)
	}
}

// A leader that is stopped, and cut off from the others before it goes on, takes itself for the leader until an election timeout has
// passed, and the holder renews with it. Nobody tells either of them that the name is free by then.
const resumedLeader = `
world seed=1 members=3 hosts=2 names=1 ttl=5s drift=0.001 margin=100ms rate=1 election=1s commit=1ms apply=0s peer=1ms delay=1ms stall=0s waits=false flaw=%s
0s hold host=0 member=1 dir=both for=40s
0s hold host=0 member=2 dir=both for=40s
500ms lock host=0 user=1 name=0 wait=10s for=1m
5s pause member=0 for=2.5s
6.9s isolate member=0 for=30s
8s lock host=1 user=1 name=0 wait=30s for=20s
`

func TestJudge_SeesALeaderThatWasStoppedAndCutOff(t *testing.T) {
	seen := 0
	for range 30 { // whom the others elect, and when, and when a renewal is due, is chance
		report := watched(t, parse(t, fmt.Sprintf(resumedLeader, "resumedleader")))
		if slices.Contains(report.kinds(), "expiry") {
			seen++
		}
		if report := watched(t, parse(t, fmt.Sprintf(resumedLeader, "none"))); report.Failed() {
			t.Fatalf("with a leader that looks first: %v", report)
		}
	}
	if seen == 0 {
		t.Error("it was not seen")
	}
	t.Logf("seen %d times", seen)
}
