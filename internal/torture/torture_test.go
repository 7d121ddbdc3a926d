// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(workerVariable); text != "" { // started by a slot
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := work(ctx, text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// A run that is long enough for most things to have happened once, with users and logins that run out. What it takes to find
// something is the command's business; see docs/testing.md.
func TestTorture_AShortRun(t *testing.T) {
	o := options{
		subject: "leasehold", seed: 3, length: 6 * time.Second, calm: 4 * time.Second, every: 300 * time.Millisecond, ttl: 2 * time.Second, rewinds: 1,
		members: 3, workers: 3, nameN: 2, auth: true, out: t.TempDir(),
	}
	err := o.run(t.Context())
	summary, rerr := os.ReadFile(filepath.Join(o.out, "summary.txt"))
	if err != nil || rerr != nil {
		t.Fatalf("%v, %v\n%s", err, rerr, summary)
	}
	for _, nothing := range []string{"\nfaults: 0:", "\ngrants: 0,", "\nwrites accepted: 0,"} {
		if strings.Contains(string(summary), nothing) {
			t.Errorf("a run with %q shows nothing:\n%s", strings.TrimSpace(nothing), summary)
		}
	}
	page, err := os.ReadFile(filepath.Join(o.out, "report.html"))
	if err != nil || !strings.Contains(string(page), `"name":"n0"`) || strings.Contains(string(page), "{{") {
		t.Errorf("the report: %v, %d bytes", err, len(page))
	}
}

func TestReadLog_AKilledProcessBelievedUntilItsLastCheck(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	lines := `{"Granted":{"ID":"w1.0-0-1","Name":"n0","Token":5,"First":100}}
{"Ended":{"ID":"w1.0-0-1","Name":"n0","Token":5,"First":100,"Last":200,"Why":"released"}}
{"Granted":{"ID":"w1.0-0-2","Name":"n0","Token":6,"First":300}}
{"Granted":{"ID":"w1.0-1-1","Name":"n1","Token":7,"First":310}}
{"Write":{"Belief":"w1.0-0-2","Na`
	if err := os.WriteFile(log, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	var h history
	if err := readLog(log, map[string]belief{"w1.0-0-2": {Last: 450, Until: 700}, "w1.0-1-0": {Last: 250}}, &h); err != nil {
		t.Fatal(err)
	}
	h.sort()
	if len(h.Beliefs) != 3 || h.Beliefs[0].Last != 200 || h.Beliefs[1].Last != 450 || h.Beliefs[1].end() != 700 || h.Beliefs[2].Last != 310 {
		t.Errorf("read %+v", h.Beliefs)
	}
	if err := readLog(filepath.Join(dir, "none"), nil, &h); err != nil {
		t.Errorf("a process that was killed before it wrote anything: %v", err)
	}
	if err := os.WriteFile(log, []byte("{\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := readLog(log, nil, &h); err == nil {
		t.Error("a broken line was passed over")
	}
}

func TestCheck_AHistoryCanBeCheckedAgain(t *testing.T) {
	h := run(held("a", 1, 0, 1000), held("b", 2, 900, 1200))
	h.Command = "again"
	o := options{ttl: h.TTL, out: t.TempDir()}
	if err := o.conclude(h); !errors.Is(err, errViolated) {
		t.Fatalf("the first time: %v", err)
	}
	first, err := os.ReadFile(filepath.Join(o.out, "summary.txt"))
	if err != nil {
		t.Fatal(err)
	}
	saved, err := load(filepath.Join(o.out, "history.json"))
	if err != nil {
		t.Fatal(err)
	}
	o.out = t.TempDir()
	if err := o.conclude(saved); !errors.Is(err, errViolated) {
		t.Fatalf("again: %v", err)
	}
	again, err := os.ReadFile(filepath.Join(o.out, "summary.txt"))
	if err != nil || string(again) != string(first) {
		t.Errorf("%v; again:\n%s\nat first:\n%s", err, again, first)
	}
}

func TestDraw_TwentyMinutesStaySmall(t *testing.T) {
	h := run()
	for i := range 60_000 {
		b := held("w3.0-1-"+strconv.Itoa(i), int64(100+i), i, i)
		b.Worker, b.Why = "w3.0-1", "released"
		h.Beliefs = append(h.Beliefs, b)
	}
	for i := range 3000 {
		h.Faults = append(h.Faults, fault{Kind: "hold", What: "12.345s hold client=3 member=2 dir=both", Begin: at(i), End: at(i + 5), Worker: 3, Member: -1})
	}
	path := filepath.Join(t.TempDir(), "report.html")
	if err := report(path, h, &verdict{}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 5<<20 {
		t.Errorf("the page has %d bytes", info.Size())
	}
}

func TestCompare_MakesATableOfSavedHistories(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history.json")
	h := run(held("a", 1, 0, 1000), held("b", 2, 900, 1200))
	for i := range 1500 {
		h.Faults = append(h.Faults, fault{Kind: sigkill, Begin: at(i), End: at(i)})
	}
	if err := h.save(path); err != nil {
		t.Fatal(err)
	}
	table, err := options{}.compare([]string{path, path})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| | test | test |\n|---|---|---|\n", "| faults | 1,500 | 1,500 |\n", "| **1** | **1** |\n", "| 0.10 s; 0.1 s |"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}
