// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// output is the value of --output: text or json. It implements pflag.Value, so that a wrong word is a wrong flag.
type output string

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "text|json" }

func (o *output) Set(s string) error {
	if s != "text" && s != "json" {
		return fmt.Errorf("want text or json")
	}
	*o = output(s)
	return nil
}

func (o *output) json() bool { return *o == "json" }

func outputFlag(cmd *cobra.Command) *output {
	o := output("text")
	cmd.Flags().VarP(&o, "output", "o", "how to print: text, or json, one value a line")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return &o
}
