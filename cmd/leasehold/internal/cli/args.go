// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"example.com/leasehold/cmd/leasehold/internal/lines"
	"github.com/spf13/cobra"
)

// args wraps a check of the arguments with the exit code and the command's usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := check(cmd, given); err != nil {
			return exitWith(exitUsage, "%w (usage: %s)", err, cmd.UseLine())
		}
		return nil
	}
}

func noArgs(_ *cobra.Command, given []string) error {
	if len(given) > 0 {
		return fmt.Errorf("want no arguments, not %q", given[0])
	}
	return nil
}

// oneName wants a name. It may be one that the SDK would refuse and somebody else has given.
func oneName(_ *cobra.Command, given []string) error {
	switch {
	case len(given) == 0:
		return errors.New("want a name")
	case len(given) > 1:
		return fmt.Errorf("want one name, not %d arguments", len(given))
	case given[0] == "":
		return lines.CheckName("")
	}
	return nil
}

// oneNameOfOurs wants a name that the SDK takes.
func oneNameOfOurs(cmd *cobra.Command, given []string) error {
	if err := oneName(cmd, given); err != nil {
		return err
	}
	return lines.CheckName(given[0])
}

func onePrefixAtMost(_ *cobra.Command, given []string) error {
	if len(given) > 1 {
		return fmt.Errorf("want one prefix of names at most, not %d arguments", len(given))
	}
	return nil
}

// nameAndCommand wants a name, then the command after a "--".
func nameAndCommand(cmd *cobra.Command, given []string) error {
	return beforeCommand(cmd, given, 1, "one name")
}

// nameValueAndCommand wants a name and a value, then the command after a "--".
func nameValueAndCommand(cmd *cobra.Command, given []string) error {
	return beforeCommand(cmd, given, 2, "a name and a value")
}

// beforeCommand wants n arguments, the first of which is a name, then the command after a "--".
func beforeCommand(cmd *cobra.Command, given []string, n int, want string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0:
		return errors.New("want -- before the command")
	case dash != n:
		return fmt.Errorf("want %s before --", want)
	case len(given) <= n:
		return errors.New("want a command after --")
	}
	return lines.CheckName(given[0])
}

// checkCompletionArgs gives cobra's own command for completions, whose help is cobra's as well, the errors of the others.
func checkCompletionArgs(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, err := root.Find([]string{"completion"})
	if err != nil || completion == root {
		return // cobra has none
	}
	var shells []string
	for _, shell := range completion.Commands() {
		shells = append(shells, shell.Name())
		shell.Args = args(noArgs)
	}
	last := len(shells) - 1
	completion.Args = args(func(_ *cobra.Command, given []string) error {
		if len(given) > 0 {
			return fmt.Errorf("want %s or %s, not %q", strings.Join(shells[:last], ", "), shells[last], given[0])
		}
		return nil
	})
	completion.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// helpCommand is cobra's, but a command that does not exist is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, given []string) error {
			about, rest, err := cmd.Root().Find(given)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), given[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
