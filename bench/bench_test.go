// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/leasehold/bench/internal/proc"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/internal/clock"
)

func TestMain(m *testing.M) {
	if played, err := proc.Run(context.Background(), roles()); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func instantly(t *testing.T) options {
	return options{members: 1, rounds: 1, length: 30 * time.Millisecond, out: t.TempDir(), dir: t.TempDir(), instant: true}
}

// Every axis runs against a real etcd, at a hundredth of its size, and leaves figures for each of its rows.
func TestAxes_RunAndLeaveNothingOut(t *testing.T) {
	for _, a := range axes {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			o := instantly(t)
			o.only = []string{a.name}
			var log bytes.Buffer
			if err := o.run(t.Context(), &log); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			text, err := os.ReadFile(filepath.Join(o.out, "results.json"))
			if err != nil {
				t.Fatal(err)
			}
			var results struct {
				Facts []report.Fact
				Rows  []report.Row
				Plots []report.Plot
			}
			if err := json.Unmarshal(text, &results); err != nil {
				t.Fatal(err)
			}
			if len(results.Rows) == 0 || len(results.Facts) == 0 {
				t.Fatalf("%d rows and %d facts", len(results.Rows), len(results.Facts))
			}
			for _, r := range results.Rows {
				if r.Axis != a.title || r.Ours == nil && (r.Floor == nil || r.Bar != report.Bar{}) {
					t.Errorf("a row of %q has no figure of ours, and is no floor by itself: %s", r.Axis, r.Markdown())
				}
				if r.Bar.Against == report.Theirs && r.Theirs == nil || r.Bar.Against == report.Floor && r.Floor == nil {
					t.Errorf("a row has nothing to compare with: %s", r.Markdown())
				}
			}
			for _, p := range results.Plots {
				if _, err := os.Stat(filepath.Join(o.out, p.File)); err != nil {
					t.Error(err)
				}
			}
			rest, err := filepath.Glob(filepath.Join(o.dir, "*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(rest) > 0 {
				t.Errorf("left behind: %v", rest)
			}
		})
	}
}

// What is far from etcd is measured so: the added round trip is in the latency.
func TestCluster_AddsTheRoundTrip(t *testing.T) {
	t.Parallel()
	o := instantly(t)
	o.rtt = 20 * time.Millisecond
	l := &lab{options: o, report: &report.Report{}, log: t.Output()}
	cluster, err := l.cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	r, err := l.lockAndUnlock(t.Context(), cluster, floor, 1)
	if err != nil {
		t.Fatal(err)
	}
	if r["p50"] < 0.040 {
		t.Errorf("a lock and an unlock took %v s over round trips of %v", r["p50"], o.rtt)
	}
}

// An operation that fails ends the measurement with its error.
func TestClosedLoop_FailsWithTheFirstError(t *testing.T) {
	t.Parallel()
	o := instantly(t)
	l := &lab{options: o, report: &report.Report{}, log: t.Output()}
	cluster, err := l.cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		good int           // operations before the one that fails
		last time.Duration // which takes so long
	}{
		"while it is measured": {fewest / 2, 0},
		"afterwards":           {2 * fewest, 300 * time.Millisecond},
	} {
		for called := false; !called; { // the loop may end before it comes to the one that fails
			n := 0
			_, err = probe{cluster: cluster}.closedLoop(t.Context(), 1, 0, 30*time.Millisecond, func(ctx context.Context, _ int) error {
				if n++; n <= tc.good {
					return clock.Wait(ctx, time.Millisecond)
				}
				called = true
				return errors.Join(clock.Wait(context.WithoutCancel(ctx), tc.last), broken)
			})
			if called != errors.Is(err, broken) {
				t.Errorf("%s: got %v, want the operation's error", name, err)
			}
		}
	}
}

func TestSpan_CountsOnlyWhatWasCompletedWithin(t *testing.T) {
	begin := time.Now()
	s := span{begin: begin, end: begin.Add(time.Second), client: 3 * time.Second}
	r, err := s.reading(s.within([][]done{
		{{begin.Add(-1), 1}, {begin, 2 * time.Millisecond}},
		{{begin.Add(time.Second - 1), 4 * time.Millisecond}, {begin.Add(time.Second), 1}, {begin.Add(1), 3 * time.Millisecond}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for metric, want := range map[string]float64{"n": 3, "rate": 3, "p50": 0.003, "p99": 0.004, "worst": 0.004, "client": 1} {
		if r[metric] != want {
			t.Errorf("%s: got %v, want %v", metric, r[metric], want)
		}
	}
	if _, err := s.reading(nil); err == nil {
		t.Error("nothing was completed, and that is no error")
	}
}

func TestTurns_BeginEachRoundWithAnotherSubject(t *testing.T) {
	l := &lab{}
	var order []string
	taken, err := l.turns(t.Context(), 3, all, func(_ context.Context, s subject, round int) (reading, error) {
		order = append(order, string(s[0]))
		return reading{"v": float64(round)}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(order, ""), "lcb"+"cbl"+"blc"; got != want {
		t.Errorf("took turns as %s, want %s", got, want)
	}
	if m := taken.median(floor, "v"); m != 1 {
		t.Errorf("the median over the rounds is %v, want 1", m)
	}
	if m := taken.median(floor, "nothing"); !math.IsNaN(m) {
		t.Errorf("the median of nothing is %v, want NaN", m)
	}
}

func TestCommand_ListsEveryProblemOfItsFlags(t *testing.T) {
	err := command(t.Context(), []string{"-members", "2", "-rounds", "0", "-for", "0", "-rtt", "-1s", "-only", "lock,nothing"})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"-members 2", "-rounds 0", "-for 0", "-rtt -1s", `"nothing"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}
