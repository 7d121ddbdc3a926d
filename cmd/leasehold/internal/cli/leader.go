// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"github.com/spf13/cobra"
)

// leaderInfo is what is printed as JSON. Token 0: nobody leads.
type leaderInfo struct {
	Time  time.Time       `json:"time"`
	Name  string          `json:"name"`
	Value string          `json:"value"`
	Token leasehold.Token `json:"token"`
	Key   string          `json:"key,omitempty"`
	Lease string          `json:"lease,omitempty"`
}

func (a *app) leaderCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print who leads an election, or holds a lock",
		Long: `Leader prints what the leader of NAME has proclaimed. With --watch it prints one
line for the present state and one for each change, until it is interrupted.

What it prints was true in etcd when it was read. The leader may have stopped believing before.

` + exitHelp("", "nobody leads", endedBySignal, exitOK, exitNo, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Example: `  curl "http://$(leasehold leader scheduler)/status"
  leasehold leader scheduler --watch -o json`,
		Args: args(oneNameOfOurs),
	}
	l := a.etcdFlags(cmd)
	format := outputFlag(cmd)
	var watch bool
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "print each change, too")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		name := given[0]
		return l.with(cmd, func(ctx context.Context) error {
			client, err := leasehold.New(l.client, leasehold.Config{Prefix: l.prefix})
			if err != nil {
				return err
			}
			election := client.Election(name)
			if !watch {
				return a.printLeader(ctx, l, election, *format)
			}
			// The first answer is bounded; a wrong endpoint should not look like an election without changes.
			brief, cancel := l.brief(ctx)
			_, err = election.Leader(brief)
			cancel()
			if err != nil && !errors.Is(err, leasehold.ErrNoLeader) {
				return err
			}
			for leader, err := range election.Observe(ctx) {
				if err != nil {
					return err
				}
				a.printChange(name, leader, *format)
			}
			return context.Cause(ctx)
		})
	}
	return cmd
}

func (a *app) printLeader(ctx context.Context, l *link, e *leasehold.Election, format output) error {
	ctx, cancel := l.brief(ctx)
	defer cancel()
	leader, err := e.Leader(ctx)
	if errors.Is(err, leasehold.ErrNoLeader) {
		return exitWith(exitNo, "nobody leads %q", e.Name())
	}
	if err != nil {
		return err
	}
	if format.json() {
		return json.NewEncoder(a.stdout).Encode(infoOf(e.Name(), leader))
	}
	value, _ := lines.ParseHolder(leader.Value)
	_, err = fmt.Fprintln(a.stdout, value)
	return err
}

func (a *app) printChange(name string, leader leasehold.Leader, format output) {
	if format.json() {
		_ = json.NewEncoder(a.stdout).Encode(infoOf(name, leader)) // who does not read any more is found by the next signal
		return
	}
	now := time.Now().Format(time.TimeOnly)
	if leader.Token == 0 {
		fmt.Fprintf(a.stdout, "%s  nobody leads\n", now)
		return
	}
	value, _ := lines.ParseHolder(leader.Value)
	fmt.Fprintf(a.stdout, "%s  token %v  %s\n", now, leader.Token, printable(value))
}

func infoOf(name string, leader leasehold.Leader) leaderInfo {
	info := leaderInfo{Time: time.Now().UTC(), Name: name, Token: leader.Token, Key: leader.Key}
	info.Value, _ = lines.ParseHolder(leader.Value)
	if leader.Lease != 0 {
		info.Lease = fmt.Sprintf("%x", int64(leader.Lease))
	}
	return info
}
