// SPDX-License-Identifier: Apache-2.0

// Command cmd runs any number of simulated schedules, and replays the ones that fail:
//
//	go run ./internal/simulation/cmd -n 100000                  # from seed 1, a process for each core
//	go run ./internal/simulation/cmd -seed 4711 -repeat 100     # one schedule, many times
//	go run ./internal/simulation/cmd -plan failing.plan -shrink # from its text, and with what it does not need left out
//
// It builds the tests of package simulation, because a bubble exists only in a test, and runs them in processes of their own: a
// schedule that leaves a goroutine, panics or hangs ends one process, and the others go on. What fails is written to the folder
// that -out names. It must run where the module's source is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"example.com/leasehold/internal/simulation"
)

type options struct {
	seed   uint64
	n      int
	procs  int
	race   bool
	plan   string
	repeat int
	shrink bool
	out    string
	hang   time.Duration
	stdout io.Writer
}

func main() {
	o := options{stdout: os.Stdout}
	flag.Uint64Var(&o.seed, "seed", 1, "the first seed")
	flag.IntVar(&o.n, "n", 1, "how many schedules")
	flag.IntVar(&o.procs, "procs", runtime.NumCPU(), "how many processes")
	flag.BoolVar(&o.race, "race", false, "with the race detector")
	flag.StringVar(&o.plan, "plan", "", "replay the schedule in this file")
	flag.IntVar(&o.repeat, "repeat", 0, "replay one schedule so many times (20 with -plan), because goroutines take turns as they like, so that not each run fails")
	flag.BoolVar(&o.shrink, "shrink", false, "when replaying, leave out of the schedule what it does not need to fail")
	flag.StringVar(&o.out, "out", "dist/simulation", "the folder for schedules that fail")
	flag.DurationVar(&o.hang, "hang", 5*time.Minute, "how long one schedule may take, or the repetitions of one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "simulation")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // for temporary files
	binary := filepath.Join(dir, "simulation.test")
	args := []string{"test", "-c", "-o", binary}
	if o.race {
		args = append(args, "-race")
	}
	build := exec.CommandContext(ctx, "go", append(args, "example.com/leasehold/internal/simulation")...)
	build.Stdout, build.Stderr = o.stdout, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build the tests of the simulation: %w", err)
	}
	if o.plan != "" || o.repeat > 0 {
		return o.replay(ctx, binary, dir)
	}
	return o.sweep(ctx, binary)
}

// keep writes down a schedule that failed.
func (o options) keep(seed uint64, what string) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	base := filepath.Join(o.out, strconv.FormatUint(seed, 10))
	return errors.Join(
		os.WriteFile(base+".plan", fmt.Appendf(nil, "# seed %d\n%v", seed, simulation.New(seed)), 0o644),
		os.WriteFile(base+".txt", []byte(what+"\n"), 0o644),
	)
}
