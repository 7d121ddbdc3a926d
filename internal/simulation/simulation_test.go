// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The flags by which the command drives the tests, and people replay what it found.
var (
	firstSeed = flag.Uint64("simulation.seed", 1, "the first seed")
	plans     = flag.Int("simulation.n", 0, "how many schedules; 0: as many as fit into the tests of the module")
	asJSON    = flag.Bool("simulation.json", false, "print a line of JSON before and after each schedule")
	planFile  = flag.String("simulation.plan", "", "run the schedule in this file, and no other")
	repeat    = flag.Int("simulation.repeat", 20, "how often to run it: goroutines take turns as they like")
)

func seeds() int {
	switch {
	case *plans > 0:
		return *plans
	case testing.Short():
		return 100
	case race:
		return 200
	}
	return 600 // go run ./internal/simulation/cmd runs any number
}

// hang is how long one plan may take, in real time. Most take some milliseconds.
const hang = 4 * time.Minute

// watched runs a plan. If time stands still in it, as it does for as long as a goroutine of the bubble waits for a mutex or runs, it
// ends the process and tells which plan it was, and what the goroutines do for whose sake time stands still.
func watched(t *testing.T, p Plan) Report {
	watchdog := time.AfterFunc(hang, func() {
		panic(fmt.Sprintf("the plan of seed %d has not ended after %v:\n%v\n%s", p.World.Seed, hang, p, busy()))
	})
	defer watchdog.Stop()
	return Run(t, p)
}

// busy returns the stacks of the goroutines in bubbles that keep time from passing.
func busy() string {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	bubbled := 0
	for stack := range strings.SplitSeq(string(stacks), "\n\n") {
		state, _, _ := strings.Cut(stack, "\n")
		if !strings.Contains(state, "synctest bubble") {
			continue
		}
		bubbled++
		if !strings.Contains(state, "(durable)") {
			found = append(found, stack)
		}
	}
	return fmt.Sprintf("%s\n\n%d of %d goroutines in bubbles are busy", strings.Join(found, "\n\n"), len(found), bubbled)
}

func TestSchedules(t *testing.T) {
	if *planFile != "" {
		return // TestPlans runs it
	}
	// In a process that may grow to some 80 MB, a quarter less time goes into collecting garbage.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	next := make(chan uint64)
	go func() {
		defer close(next)
		for i := range uint64(seeds()) {
			next <- *firstSeed + i
		}
	}()
	var mu sync.Mutex
	var total Stats
	workers := runtime.GOMAXPROCS(0)
	if *asJSON {
		workers = 1 // so that whoever reads knows which schedule the process died of
	}
	t.Run("seeds", func(t *testing.T) {
		for range workers {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for seed := range next {
					say(event{Seed: seed})
					report := watched(t, New(seed))
					done := event{Seed: seed, Done: true, Violations: texts(report), Stats: report.Stats}
					if report.Failed() {
						done.Trace = report.Trace
					}
					say(done)
					mu.Lock()
					total.Add(report.Stats)
					mu.Unlock()
					if report.Failed() {
						t.Errorf("seed %d:\n%vrepeat it with: go run ./internal/simulation/cmd -seed %d -repeat 100", seed, report, seed)
					}
				}
			})
		}
	})
	t.Log(total)
	if total.Plans == seeds() && total.Plans >= 100 && (total.Losses["expired"] == 0 || total.Losses["revoked"] == 0 || total.Excused == 0) {
		t.Error("the schedules did not even cost anybody a grant: what they show is nothing")
	}
}

// event is what the command is told.
type event struct {
	Seed       uint64
	Done       bool
	Violations []string `json:",omitempty"`
	Trace      []string `json:",omitempty"`
	Stats      Stats
}

func say(e event) {
	if *asJSON {
		line, err := json.Marshal(e)
		if err != nil {
			line = []byte(err.Error())
		}
		fmt.Printf("%s\n", line)
	}
}

func texts(r Report) []string {
	var out []string
	for _, v := range r.Violations {
		out = append(out, v.String())
	}
	return out
}

// The schedules in testdata have found something once.
func TestPlans(t *testing.T) {
	files := []string{*planFile}
	if *planFile == "" {
		var err error
		if files, err = filepath.Glob("testdata/plans/*.plan"); err != nil || len(files) == 0 {
			t.Fatalf("%d plans, %v", len(files), err)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for range *repeat {
			report := watched(t, p)
			if !report.Failed() {
				continue
			}
			t.Errorf("%s:\n%v", file, report)
			if *planFile == "" {
				break
			}
			for _, line := range report.Trace {
				fmt.Println(line)
			}
			break
		}
	}
}

func TestShrink_LeavesWhatIsNeeded(t *testing.T) {
	p := New(3)
	needed := []Step{p.Steps[2], p.Steps[len(p.Steps)/2], p.Steps[len(p.Steps)-1]}
	calls := 0
	got := Shrink(p, func(q Plan) bool {
		calls++
		return !slices.ContainsFunc(needed, func(s Step) bool { return !slices.Contains(q.Steps, s) })
	})
	if !slices.Equal(got.Steps, needed) || got.World != p.World {
		t.Errorf("left\n%vwant\n%v", got, needed)
	}
	if calls > 8*len(p.Steps) {
		t.Errorf("%d calls for %d steps", calls, len(p.Steps))
	}
}
