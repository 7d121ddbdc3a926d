// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("simulation.seed", 1, "the first seed")
	plans     = flag.Int("simulation.n", 0, "how many schedules; 0: as many as the tests of the module run")
	verbose   = flag.Bool("simulation.trace", false, "print what happened in schedules that fail")
)

func TestSchedules(t *testing.T) {
	n := *plans
	if n == 0 {
		n = 20
	}
	var total Stats
	began := time.Now()
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		if *verbose {
			fmt.Println("seed", seed)
		}
		report := Run(t, New(seed))
		total.Add(report.Stats)
		if !report.Failed() {
			continue
		}
		t.Errorf("seed %d:\n%v", seed, report)
		if *verbose {
			fmt.Println(report.Plan)
			for _, line := range report.Trace {
				fmt.Println(line)
			}
		}
	}
	t.Logf("%v\n%v", time.Since(began), total)
}
