// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/signal"

	"example.com/leasehold/cmd/leasehold/internal/demo"
	"example.com/leasehold/cmd/leasehold/internal/offspring"
	"github.com/spf13/cobra"
)

const demoWorker = "demo-worker"

func (a *app) demoCommand() *cobra.Command {
	var svg string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a lock, a stopped holder, a refused late write and a stopped etcd leader",
		Long: `Demo starts three etcd members inside this process and three worker processes that contend for one lock. Each
writes with its fencing token to a register in this process, which compares tokens.

It stops the holder for longer than its term (SIGSTOP), shows the take-over with a larger token, resumes the old
holder, shows that its first check says expired and that a write which ignores the check is refused. Then it stops the
etcd leader and shows that the holder's session survives.

It needs no etcd, takes about half a minute, and ends with a picture of who believed what when: in the terminal, and
as an SVG file whose path it prints. It exits with 0 if all held that must hold.

` + exitHelp("", "something did not hold that must hold", endedBySignal, exitOK, exitNo, exitUsage, exitFailed),
		Args: args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := offspring.Self()
			if err != nil {
				return err
			}
			err = demo.Run(cmd.Context(), demo.Options{
				Out: a.stdout, Screen: a.screen(), SVG: svg,
				Program: self, Args: []string{demoWorker},
			})
			switch {
			case errors.Is(err, demo.ErrUnexpected):
				return &exitError{code: exitNo} // it has been told at length
			case errors.Is(err, demo.ErrPicture) && svg != "":
				return exitWith(exitUsage, "--svg: %w", err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&svg, "svg", "", "file for the picture (default leasehold-demo.svg in the current directory, or among the temporary files where that cannot be written)")
	return cmd
}

func (a *app) demoWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    demoWorker,
		Hidden: true,
		Args:   args(noArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			// An interrupt from the keyboard reaches all processes of the terminal; the parent decides what it means.
			signal.Ignore(os.Interrupt)
			return demo.Worker(cmd.Context(), a.stdin, a.stdout)
		},
	}
}
