// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"math"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func check(t *testing.T, c *leaseholdtest.Cluster, o Options) *Report {
	t.Helper()
	o.Client = c.DirectClient(t)
	o.Config = clientv3.Config{Endpoints: c.Endpoints(), DialTimeout: time.Second}
	if o.Prefix == "" {
		o.Prefix = "leasehold/"
	}
	if o.TTL == 0 {
		o.TTL = 15 * time.Second
	}
	o.Margin, o.Drift, o.Step = 100*time.Millisecond, 1e-3, 5*time.Second
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func has(r *Report, s Severity, subject string) bool {
	for _, f := range r.Findings {
		if f.Severity == s && strings.Contains(f.Subject, subject) {
			return true
		}
	}
	return false
}

func TestRun_AHealthyClusterPasses(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	var r *Report
	leaders := 0
	for range 5 { // the leader of a cluster that gets too little of a busy machine may change meanwhile
		if r = check(t, c, Options{Measure: 2 * time.Second}); r.Bad() {
			t.Logf("%+v", r.Findings)
			continue
		}
		leaders = 0
		for _, m := range r.Members {
			if m.Leads {
				leaders++
			}
		}
		if leaders == 1 {
			break
		}
	}
	if r.Bad() {
		t.Errorf("%+v", r.Findings)
	}
	for _, m := range r.Members {
		if m.Version == "" || m.Median <= 0 || m.Worst < m.Median {
			t.Errorf("%+v", m)
		}
	}
	if leaders != 1 || r.LeastTTL != time.Second || r.GrantedTTL != 15*time.Second || r.AdviceTTL == 0 {
		t.Errorf("%d leaders, %+v", leaders, r)
	}
	left, err := c.DirectClient(t).Get(t.Context(), "", clientv3.WithPrefix())
	if err != nil || left.Count != 0 {
		t.Errorf("%d keys are left, %v", left.Count, err)
	}
}

func TestRun_AMemberThatIsDownIsAFailureAndTheRestIsChecked(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	if err := c.Member(1).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := check(t, c, Options{})
	if !has(r, Failure, c.Endpoints()[1]) || !has(r, OK, c.Endpoints()[0]) || !has(r, OK, "permission") {
		t.Errorf("%+v", r.Findings)
	}
}

func TestRun_AShortTTLIsAWarning(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Heartbeat: 200 * time.Millisecond, Election: 2 * time.Second})
	r := check(t, c, Options{TTL: 2 * time.Second})
	if !has(r, Warning, "lease") || !has(r, Warning, "TTL") || r.Bad() {
		t.Errorf("%+v", r.Findings)
	}
}

func TestFlaw_KnowsTheVersions(t *testing.T) {
	for version, flawed := range map[string]bool{
		"3.4.30": true, "3.4.31": true, "3.5.12": true, "3.5.13": true, "3.5.22": true, "3.5.23": false,
		"3.6.4": true, "3.6.5": false, "3.7.3": false, "3.7.0-rc.1": false, "4.0.0": false, "three": true,
	} {
		if got := flaw(version) != ""; got != flawed {
			t.Errorf("%s: %q", version, flaw(version))
		}
	}
}

func TestSurest_TakesTheSharpestBeginnings(t *testing.T) {
	zero := time.Now()
	at := func(from, to time.Duration, n int64) beginning { return beginning{zero.Add(from), zero.Add(to), n} }
	const ms = time.Millisecond
	// A clock that runs 1 % fast: its seconds last 990.099 ms here. The first beginning is vague.
	second := time.Second * 100 / 101
	all := []beginning{at(-300*ms, 200*ms, 60), at(second-ms, second+ms, 59), at(2*second-200*ms, 2*second+100*ms, 58), at(5*second-ms, 5*second+ms, 55)}
	r := surest(all)
	if r == nil || math.Abs(r.Drift-0.01) > r.Error || r.Error > 0.001 {
		t.Errorf("%+v, want 0.01 within less than 0.001", r)
	}
	if surest(all[:1]) != nil {
		t.Error("a rate of one beginning")
	}
}
