// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

var terms = flag.Int("terms", 40, "how many terms of office the storm lasts")

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		main() // a process of the fleet
		return
	}
	os.Exit(m.Run())
}

// Kills, stops, cuts, lost leaders of etcd, slow and fickle work: no two contexts of one election are alive at any
// instant, tokens rise, every started work is stopped once, and nobody leads for no longer than the bound.
func TestStorm_NeverTwoLeaders(t *testing.T) {
	o := stormOptions{terms: *terms, processes: 4, elections: 6, ttl: time.Second, limit: 8 * time.Minute, slack: 30 * time.Second, seed: leaseholdtest.Seed(t)}
	var out strings.Builder
	if err := storm(t.Context(), o, &out); err != nil {
		t.Error(err)
	}
	t.Log(&out)
}

func TestRolling_HandOverTakesNoTerm(t *testing.T) {
	var out strings.Builder
	if err := rolling(t.Context(), rollingOptions{rounds: 2, load: 2, ttl: 2 * time.Second, slack: 20 * time.Second}, &out); err != nil {
		t.Error(err)
	}
	t.Log(&out)
}

// The judge itself: what it must find.
func TestVerify_FindsWhatIsBroken(t *testing.T) {
	good := []reign{
		{election: 1, token: 5, begun: 100, alive: 200, stops: 1},
		{election: 1, token: 9, begun: 201, alive: 300, stops: 1},
		{election: 2, token: 7, begun: 150, alive: 250, stops: 0, killed: true},
	}
	if broken, gaps := verify(good); len(broken) > 0 || len(gaps) != 1 || gaps[0] != 1 {
		t.Errorf("found %v, gaps %v, where all is well", broken, gaps)
	}
	for name, bad := range map[string]reign{
		"two at a time":             {election: 1, token: 6, begun: 200, alive: 200, stops: 1},
		"a later one with less":     {election: 1, token: 4, begun: 400, alive: 500, stops: 1},
		"a token twice":             {election: 1, token: 9, begun: 400, alive: 500, stops: 1},
		"not stopped":               {election: 1, token: 10, begun: 400, alive: 500},
		"stopped twice":             {election: 1, token: 10, begun: 400, alive: 500, stops: 2},
		"killed, and stopped twice": {election: 1, token: 10, begun: 400, alive: 500, stops: 2, killed: true},
	} {
		if broken, _ := verify(append([]reign{bad}, good...)); len(broken) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
