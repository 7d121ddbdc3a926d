// SPDX-License-Identifier: Apache-2.0

// Command bench measures Leasehold side by side with go.etcd.io/etcd/client/v3/concurrency and, where that makes sense,
// with bare etcd operations as the floor. The servers run in processes of their own; so does whatever is to be killed or weighed. The
// subjects take turns within every round, so that a noisy moment of the machine hits all of them alike, and a figure is
// the median over the rounds. An error of any operation ends the run: nothing is left out.
//
// It writes results.md, results.json and plots to the folder that -out names. It needs Linux, for the memory of processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"example.com/leasehold/bench/internal/proc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	played, err := proc.Run(ctx, roles())
	if !played && err == nil {
		err = command(ctx, os.Args[1:])
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command reads the flags and runs the axes that they choose.
func command(ctx context.Context, args []string) error {
	var o options
	var only string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&o.members, "members", 1, "members of the etcd cluster, 1 or 3; an axis that is about members chooses itself")
	f.BoolVar(&o.fsync, "fsync", true, "let etcd flush its log to the disk")
	f.DurationVar(&o.rtt, "rtt", 0, "added to each round trip; an axis that is about round trips chooses itself")
	f.StringVar(&only, "only", "", "the axes to run, by name, with commas between")
	f.IntVar(&o.rounds, "rounds", 5, "figures are medians over so many rounds")
	f.DurationVar(&o.length, "for", 400*time.Millisecond, "how long each subject is measured in each round, at each point")
	f.StringVar(&o.out, "out", "dist/bench", "the folder for the results")
	f.StringVar(&o.dir, "dir", "", "the folder for etcd's data (default: where temporary files go)")
	f.BoolVar(&o.full, "full", false, "also what takes long")
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "usage: bench [flags]\n\n")
		f.PrintDefaults()
		fmt.Fprintf(f.Output(), "\naxes:\n")
		for _, a := range axes {
			fmt.Fprintf(f.Output(), "  %-10s %s\n", a.name, a.title)
		}
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("what is %q? see -help", f.Arg(0))
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	if err := o.validate(); err != nil {
		return err
	}
	return o.run(ctx, os.Stdout)
}
