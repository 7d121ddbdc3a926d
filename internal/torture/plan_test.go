// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// usual is a run with the command's defaults.
func usual(length time.Duration) options {
	return options{
		subject: "leasehold", seed: 1, length: length, every: time.Second, ttl: 2 * time.Second,
		members: 3, workers: 8, nameN: 12, rewinds: 12, auth: true,
	}
}

func TestPlan_FollowsFromTheSeed(t *testing.T) {
	o := usual(5 * time.Minute)
	first := o.plan()
	other := o
	other.subject = "mutex"
	if !reflect.DeepEqual(first, other.plan()) {
		t.Error("two subjects meet other faults")
	}
	other.seed = 2
	if reflect.DeepEqual(first, other.plan()) {
		t.Error("two seeds make the same")
	}
}

func TestPlan_MixesAllFaults(t *testing.T) {
	o := usual(20 * time.Minute)
	p := o.plan()
	kinds := make(map[string]int)
	for _, deeds := range [][]deed{p.Past, p.Members, p.Links, p.Workers, p.Operator} {
		for i, d := range deeds {
			kinds[d.Kind]++
			if d.At > o.length || i > 0 && d.At < deeds[i-1].At {
				t.Errorf("%s at %v, of %v", d.Kind, d.At, o.length)
			}
		}
	}
	want := map[string]int{
		rollBack: 2, wipe: 1, replace: 1, isolateLeader: 20, loseQuorum: 20, killAll: 20,
		sigstop: 100, stopBeforeWrite: 50, sigkill: 60, slowRegister: 60,
		operatorDelete: 50, operatorOverwrite: 50, operatorRevoke: 50, operatorNoSpace: 50,
	}
	for _, a := range memberActions {
		want[string(a)] = 20
	}
	for _, a := range linkActions {
		want[string(a)], want[forClient(a)] = 100, 50
	}
	for kind, least := range want {
		if kinds[kind] < least {
			t.Errorf("%s: %d in %v, want %d", kind, kinds[kind], o.length, least)
		}
	}
	for _, pair := range [][2]string{
		{isolateLeader, rejoinLeader},
		{loseQuorum, regainQuorum},
		{killAll, restartAll},
		{string(leaseholdtest.ActPause), string(leaseholdtest.ActResume)},
	} {
		if kinds[pair[0]] != kinds[pair[1]] {
			t.Errorf("%d times %s, %d times %s", kinds[pair[0]], pair[0], kinds[pair[1]], pair[1])
		}
	}
}

func TestPlan_StopsAProcessByOneDeedAtATime(t *testing.T) {
	o := usual(20 * time.Minute)
	until := make(map[int]time.Duration)
	beyond := 0
	for _, d := range o.plan().Workers {
		if d.Kind != sigstop && d.Kind != stopBeforeWrite {
			continue
		}
		if d.At < until[d.Slot] {
			t.Errorf("w%d is stopped at %v and goes on at %v", d.Slot, d.At, until[d.Slot])
		}
		until[d.Slot] = d.At + d.For
		if d.For > o.ttl {
			beyond++
		} else if d.Kind == stopBeforeWrite {
			t.Errorf("a stop before a write for %v, within the term", d.For)
		}
	}
	if beyond < 100 {
		t.Errorf("%d stops beyond the term", beyond)
	}
}
