// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "electionlab:", err)
		stop()
		os.Exit(1)
	}
}

var errUsage = errors.New("usage: electionlab storm|rolling [flags]; -h after either lists its flags")

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	switch args[0] {
	case "storm":
		var o stormOptions
		flags.IntVar(&o.terms, "terms", 500, "how many terms of office there must be, at least")
		flags.IntVar(&o.processes, "processes", 4, "how many processes stand for election")
		flags.IntVar(&o.elections, "elections", 8, "how many elections each of them stands for")
		flags.DurationVar(&o.ttl, "ttl", time.Second, "the term of a lease")
		flags.DurationVar(&o.limit, "limit", 10*time.Minute, "when to give up")
		flags.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "of the faults")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		o.slack = 3 * time.Second
		return storm(ctx, o, out)
	case "rolling":
		var o rollingOptions
		flags.IntVar(&o.rounds, "rounds", 20, "how many leaders are stopped, and how many killed")
		flags.IntVar(&o.load, "load", 4, "how many goroutines lock and unlock on the same cluster meanwhile")
		flags.DurationVar(&o.ttl, "ttl", 5*time.Second, "the term of a lease")
		if err := flags.Parse(args[1:]); err != nil {
			return err
		}
		o.slack = time.Second
		return rolling(ctx, o, out)
	case childCommand:
		return child(ctx, args[1:])
	}
	return errUsage
}
