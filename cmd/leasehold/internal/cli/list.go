// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"github.com/spf13/cobra"
)

// placeInfo is a place in line as JSON.
type placeInfo struct {
	Holder     string          `json:"holder"`
	Token      leasehold.Token `json:"token"`
	Key        string          `json:"key"`
	Lease      string          `json:"lease,omitempty"`
	TTLSeconds float64         `json:"ttl_seconds,omitempty"`
	Left       *float64        `json:"left_seconds,omitempty"`
	Since      *time.Time      `json:"since,omitempty"`
	Problem    string          `json:"problem,omitempty"`
}

func placeInfoOf(p lines.Place) placeInfo {
	info := placeInfo{Holder: p.Holder, Token: p.Token, Key: p.Key, TTLSeconds: p.TTL.Seconds(), Problem: p.Problem}
	if p.Lease != 0 {
		info.Lease = fmt.Sprintf("%x", int64(p.Lease))
		left := max(p.Left, 0).Seconds()
		info.Left = &left
	}
	if !p.Since.IsZero() {
		info.Since = &p.Since
	}
	return info
}

// left is what is left of the place's lease, in words.
func left(p lines.Place) string {
	switch {
	case p.Lease == 0:
		return "no lease"
	case p.Left < 0:
		return "ended"
	default:
		return fmt.Sprintf("%s/%s", short(p.Left), short(p.TTL))
	}
}

// short formats whole seconds without the zeros behind them.
func short(d time.Duration) string {
	if text, whole := strings.CutSuffix(d.String(), "m0s"); whole {
		return text + "m"
	}
	return d.String()
}

// age is how long it has stood in line, where it says since when: etcd keeps no times.
func age(p lines.Place, now time.Time) string {
	if p.Since.IsZero() {
		return "-"
	}
	return max(now.Sub(p.Since), 0).Round(time.Second).String()
}

func (a *app) listCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List the names that are held, their holders and how many wait",
		Long: `List prints the names that begin with PREFIX, or all: who holds each, with which token, what is left of the
holder's lease, how long it has stood in line, and how many wait. Keys that are not as they should be are pointed out: without a lease they block
their name until somebody deletes them.

The age is known only of those that "leasehold run" has put there. All of it was true at one revision of etcd.

` + exitHelp("", "", endedBySignal, exitOK, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Args: args(onePrefixAtMost),
	}
	l := a.etcdFlags(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		prefix := ""
		if len(given) == 1 {
			prefix = given[0]
		}
		return l.with(cmd, func(ctx context.Context) error {
			ctx, cancel := l.brief(ctx)
			defer cancel()
			listing, err := lines.Read(ctx, l.client, l.prefix, prefix)
			if err != nil {
				return err
			}
			var first []*lines.Place
			for i := range listing.Lines {
				first = append(first, &listing.Lines[i].Places[0])
			}
			if err := lines.FillLeases(ctx, l.client, first...); err != nil {
				return err
			}
			if format.json() {
				return a.listJSON(listing)
			}
			return a.listText(listing)
		})
	}
	return cmd
}

func (a *app) listJSON(listing lines.Listing) error {
	enc := json.NewEncoder(a.stdout)
	for _, line := range listing.Lines {
		if err := enc.Encode(struct {
			Name     string `json:"name"`
			Waiting  int    `json:"waiting"`
			Revision int64  `json:"revision"`
			placeInfo
		}{line.Name, len(line.Places) - 1, listing.Revision, placeInfoOf(line.Places[0])}); err != nil {
			return err
		}
	}
	for _, p := range listing.Strays {
		if err := enc.Encode(placeInfoOf(p)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) listText(listing lines.Listing) error {
	now := time.Now()
	t := &table{head: []string{"NAME", "HOLDER", "TOKEN", "LEFT", "AGE", "WAITING"}, keep: []bool{2: true, 3: true, 4: true, 5: true}}
	for _, line := range listing.Lines {
		p := line.Places[0]
		t.add(line.Name, p.Holder, p.Token.String(), left(p), age(p, now), strconv.Itoa(len(line.Places)-1))
	}
	if len(t.rows) > 0 {
		fmt.Fprint(a.stdout, t.text(a.screen()))
	} else {
		fmt.Fprintln(a.stderr, "nothing is held")
	}
	for _, line := range listing.Lines {
		for _, p := range line.Places {
			a.problem(p)
		}
	}
	for _, p := range listing.Strays {
		a.problem(p)
	}
	return nil
}

// problem points a place out that is not as it should be. Waiters of a list have not been asked for their leases.
func (a *app) problem(p lines.Place) {
	if p.Problem != "" {
		fmt.Fprintf(a.stdout, "! %s: %s\n", printable(p.Key), p.Problem)
	}
}

func (a *app) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a name and who waits for it, in order",
		Long: `Show prints the line of NAME: the holder first, then those who wait, in the order in which they will get it.

` + exitHelp("", nobodyHolds, endedBySignal, exitOK, exitNo, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Args: args(oneName),
	}
	l := a.etcdFlags(cmd)
	format := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		return l.with(cmd, func(ctx context.Context) error {
			ctx, cancel := l.brief(ctx)
			defer cancel()
			line, revision, err := lines.ReadOne(ctx, l.client, l.prefix, given[0])
			if err != nil {
				return err
			}
			if len(line.Places) == 0 {
				return exitWith(exitNo, "nobody holds %q", given[0])
			}
			var all []*lines.Place
			for i := range line.Places {
				all = append(all, &line.Places[i])
			}
			if err := lines.FillLeases(ctx, l.client, all...); err != nil {
				return err
			}
			if format.json() {
				return a.showJSON(line, revision)
			}
			return a.showText(line)
		})
	}
	return cmd
}

func (a *app) showJSON(line lines.Line, revision int64) error {
	enc := json.NewEncoder(a.stdout)
	for i, p := range line.Places {
		if err := enc.Encode(struct {
			Name     string `json:"name"`
			Position int    `json:"position"` // 0 holds
			Revision int64  `json:"revision"`
			placeInfo
		}{line.Name, i, revision, placeInfoOf(p)}); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) showText(line lines.Line) error {
	now := time.Now()
	t := &table{head: []string{"", "HOLDER", "TOKEN", "LEASE", "LEFT", "AGE"}, keep: []bool{0: true, 2: true, 3: true, 4: true, 5: true}}
	for i, p := range line.Places {
		position := "holds"
		if i > 0 {
			position = strconv.Itoa(i) + "."
		}
		t.add(position, p.Holder, p.Token.String(), fmt.Sprintf("%x", int64(p.Lease)), left(p), age(p, now))
	}
	fmt.Fprint(a.stdout, t.text(a.screen()))
	for _, p := range line.Places {
		a.problem(p)
	}
	return nil
}
