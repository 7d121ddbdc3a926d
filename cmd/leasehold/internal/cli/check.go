// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/preflight"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
)

func (a *app) checkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Measure whether the cluster, this machine and a TTL fit together",
		Long: `Check looks at each endpoint (version, known flaws, round trip), at the leases that are granted, at the permissions
below --prefix, at what is in between (an etcd gRPC proxy breaks the safety of renewals), at this machine's clock and
how late it wakes a process, and compares the clocks of the members with this machine's for --measure. It says which
TTL fits, and why.

What it writes is a key below --prefix for a moment, under a lease. A warning does not change the exit code.

` + exitHelp("", "something does not work or is not safe", endedBySignal, exitOK, exitNo, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Args: args(noArgs),
	}
	l := a.etcdFlags(cmd)
	format := outputFlag(cmd)
	o := preflight.Options{}
	cmd.Flags().DurationVar(&o.TTL, "ttl", 15*time.Second, "the TTL that you mean to use")
	cmd.Flags().DurationVar(&o.Margin, "margin", 100*time.Millisecond, "the margin that you mean to use (epsilon)")
	cmd.Flags().Float64Var(&o.Drift, "drift", 1e-3, "the bound on each clock's rate that you mean to use (rho)")
	cmd.Flags().DurationVar(&o.Measure, "measure", 5*time.Second, "how long to compare clocks: the longer, the surer; 0s: not at all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch { // the bounds are the SDK's, but for the last one
		case o.TTL < time.Second || o.TTL > 5*time.Minute:
			return exitWith(exitUsage, "--ttl %s: want 1s to 5m", o.TTL)
		case o.Margin < 1 || o.Margin > o.TTL/2:
			return exitWith(exitUsage, "--margin %s: want 1ns to half of the TTL, %s", o.Margin, o.TTL/2)
		case !(o.Drift >= 1e-6 && o.Drift <= 0.1): // NaN is none either
			return exitWith(exitUsage, "--drift %v: want 1e-06 to 0.1", o.Drift)
		case o.Measure < 0 || o.Measure > time.Hour:
			return exitWith(exitUsage, "--measure %s: want 0s to 1h", o.Measure)
		}
		return l.with(cmd, func(ctx context.Context) error {
			cfg, err := l.flags.Config(a.askPassword(ctx))
			if err != nil {
				return err
			}
			o.Client, o.Config, o.Prefix, o.Step = l.client, cfg, l.prefix, l.flags.CommandTimeout
			report, err := preflight.Run(ctx, o)
			if err != nil {
				return err
			}
			if format.json() {
				if err := json.NewEncoder(a.stdout).Encode(report); err != nil {
					return err
				}
			} else {
				a.printReport(report)
			}
			if report.Bad() {
				return &exitError{code: exitNo}
			}
			return nil
		})
	}
	return cmd
}

// printReport prints one finding a paragraph in a terminal and one a line elsewhere, where grep and its like read.
func (a *app) printReport(r *preflight.Report) {
	screen := a.screen()
	width := math.MaxInt
	if screen.Terminal {
		width = max(screen.Width-2, 20)
	}
	marks := map[preflight.Severity][3]string{
		preflight.OK:      {"✓", "+", "32"},
		preflight.Note:    {"·", "-", "90"},
		preflight.Warning: {"!", "!", "33"},
		preflight.Failure: {"✗", "X", "1;31"},
	}
	for _, f := range r.Findings {
		m := marks[f.Severity]
		mark := m[0]
		if screen.ASCII {
			mark = m[1]
		}
		if screen.Colour {
			mark = "\x1b[" + m[2] + "m" + mark + "\x1b[0m"
		}
		text := f.Subject + ": " + f.Text
		if f.Severity == preflight.Failure || f.Severity == preflight.Warning {
			text = strings.ToUpper(string(f.Severity)) + " " + text
		}
		for i, line := range terminal.Wrap(printable(text), width) {
			if i > 0 {
				mark = " "
			}
			fmt.Fprintf(a.stdout, "%s %s\n", mark, line)
		}
	}
}
