// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: what the user types, what is printed, and the exit codes. What the commands do is in
// the packages beside it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
)

// app is what all commands share: where they read and write, and the flags that they have in common.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	colour         string
}

// Main runs the command line and returns the exit code. The streams are files wherever a command asks what a terminal
// can show.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	// The first interrupt ends what is under way in an orderly manner; a second one ends the process at once, because
	// nobody catches it any more. The kernel ends the children then.
	ctx, stop := interruptible()
	defer stop()
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code, tell := exitCode(err)
	if sig, ok := errors.AsType[*interrupted](context.Cause(ctx)); ok && err != nil {
		code, tell = exitSignal+int(sig.signal), false
	}
	if tell {
		fmt.Fprintf(stderr, "leasehold: %s\n", strings.TrimPrefix(err.Error(), "leasehold: "))
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "leasehold",
		Short: "Hold locks and lead elections over etcd leases, and stop in time",
		Long: `Leasehold runs commands under a lock or a leadership in etcd, and stops them before anybody else can get it.

Start with the demo, which needs nothing but this program:

  leasehold demo`,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Args:                       cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return exitWith(exitUsage, "%w (see %s --help)", err, cmd.CommandPath())
	})
	root.PersistentFlags().StringVar(&a.colour, "color", "auto", "colour the output: auto, always or never; NO_COLOR is respected")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if _, err := terminal.ParseColour(a.colour); err != nil {
			return exitWith(exitUsage, "--color: %w", err)
		}
		return nil
	}
	root.AddCommand(a.demoCommand(), a.demoWorkerCommand(), a.versionCommand())
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := ""
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", s[0])
	}
	return exitWith(exitUsage, "unknown command %q%s (see leasehold --help)", name, hint)
}

// args wraps a check of the arguments' number with the exit code and the command's usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return exitWith(exitUsage, "%w (usage: %s)", err, cmd.UseLine())
		}
		return nil
	}
}

// screen looks at standard output.
func (a *app) screen() terminal.Screen {
	colour, _ := terminal.ParseColour(a.colour) // checked before any command runs
	if f, ok := a.stdout.(*os.File); ok {
		return terminal.Of(f, colour)
	}
	return terminal.Screen{Width: 80, Height: 24, Colour: colour == terminal.Always}
}

// interrupted is the cause of the context that a signal ended.
type interrupted struct{ signal syscall.Signal }

func (i *interrupted) Error() string { return "interrupted by " + i.signal.String() }

func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endSignals...)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			sig, _ := s.(syscall.Signal)
			cancel(&interrupted{sig})
		case <-ctx.Done():
			signal.Stop(signals)
		}
	}()
	return ctx, func() { cancel(nil) }
}
