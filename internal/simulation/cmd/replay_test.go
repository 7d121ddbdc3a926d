// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/internal/simulation"
)

// A leader that is cut off goes on renewing leases, among steps that do not matter.
const formerLeader = `
world seed=1 members=3 hosts=2 names=2 ttl=5s drift=0.001 margin=100ms rate=1 election=1s commit=1ms apply=0s peer=1ms delay=1ms stall=0s waits=false flaw=formerleader
0s hold host=0 member=1 dir=both for=20s
0s hold host=0 member=2 dir=both for=20s
100ms lock host=1 user=0 name=1 wait=1s for=1s
500ms lock host=0 user=1 name=0 wait=10s for=1m
1s observe host=1 user=0 name=1 for=2s
3s isolate member=0 for=20s
5s try host=1 user=0 name=1 wait=1s for=1s
6s reset host=1 member=2
`

// A failing schedule is made as short as it can be: of the steps above, no more than a holder and what cuts it off are left.
func TestReplay_ShrinksAScheduleThatFails(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "failing.plan")
	if err := os.WriteFile(plan, []byte(formerLeader), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	o := options{plan: plan, repeat: 5, shrink: true, hang: 5 * time.Minute, stdout: &out}
	err := o.run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "expiry") {
		t.Fatalf("%v; want a schedule that failed", err)
	}
	_, small, _ := strings.Cut(out.String(), "shrunk to what is needed for \"expiry\":\n")
	p, err := simulation.Parse(small)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out.String())
	}
	for _, s := range p.Steps {
		if s.Do != simulation.Hold && s.Do != simulation.Isolate && s.Do != simulation.Lock {
			t.Errorf("left, though it is not needed: %v", s)
		}
	}
	if n := len(p.Steps); n < 1 || n > 4 {
		t.Errorf("%d steps are left:\n%s", n, small)
	}
}
