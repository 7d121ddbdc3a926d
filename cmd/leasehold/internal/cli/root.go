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
	"strings"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
)

// app is what all commands share: where they read and write, and the flags that they have in common.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	colour         string
	interrupts     *interrupts
}

// Main runs the command line and returns the exit code. The streams are files wherever a command asks what a terminal
// can show.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	ctx, interrupts := catchInterrupts(context.Background())
	defer interrupts.stop()
	a.interrupts = interrupts
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code, tell := exitCode(err)
	if sig, ok := errors.AsType[*interrupted](context.Cause(ctx)); ok && err != nil {
		code, tell = exitSignal+int(sig.signal), false
	}
	if tell {
		// The SDK's errors begin with its name, which is this one's too.
		fmt.Fprintf(stderr, "leasehold: %s\n", strings.ReplaceAll(err.Error(), "leasehold: ", ""))
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
	root.AddCommand(a.demoCommand(), a.demoWorkerCommand(), a.runCommand(), a.guardianCommand(), a.leadCommand(),
		a.leaderCommand(), a.listCommand(), a.showCommand(), a.releaseCommand(), a.watchCommand(), a.checkCommand(), a.versionCommand())
	root.SetHelpCommand(helpCommand())
	checkCompletionArgs(root)
	return root
}

func unknownCommand(cmd *cobra.Command, name string) error {
	hint := ""
	if s := cmd.SuggestionsFor(name); len(s) > 0 {
		hint = fmt.Sprintf("; did you mean %q?", s[0])
	}
	return exitWith(exitUsage, "unknown command %q%s (see leasehold --help)", name, hint)
}

// screen looks at standard output.
func (a *app) screen() terminal.Screen {
	colour, _ := terminal.ParseColour(a.colour) // checked before any command runs
	if f, ok := a.stdout.(*os.File); ok {
		return terminal.Of(f, colour)
	}
	return terminal.Screen{Width: 80, Height: 24, Colour: colour == terminal.Always}
}
