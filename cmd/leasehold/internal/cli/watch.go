// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/board"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"github.com/spf13/cobra"
)

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Watch names, holders, waiters and hand-overs as they change",
		Long: `Watch follows the names that begin with PREFIX, or all. In a terminal it keeps a screen of who holds what since when,
who waits, and the last changes; otherwise, or with --plain, it prints one line for each change. It ends with ^C.

` + exitHelp("", "", endedBySignal, exitUsage, exitDenied, exitUnreachable, exitFailed),
		Args: args(onePrefixAtMost),
	}
	l := a.etcdFlags(cmd)
	format := outputFlag(cmd)
	var plain bool
	cmd.Flags().BoolVar(&plain, "plain", false, "print lines in a terminal, too")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		prefix := strings.Join(given, "")
		return l.with(cmd, func(ctx context.Context) error {
			b := board.New(l.prefix)
			patience := l.flags.DialTimeout + l.flags.CommandTimeout
			switch {
			case format.json():
				enc := json.NewEncoder(a.stdout)
				return b.Follow(ctx, l.client, prefix, patience, func(c board.Change) { _ = enc.Encode(changeInfoOf(c)) })
			case plain || !a.screen().Terminal:
				return b.Follow(ctx, l.client, prefix, patience, func(c board.Change) { fmt.Fprintln(a.stdout, changeLine(c)) })
			default:
				return a.liveScreen(ctx, b, func(ctx context.Context, news func(board.Change)) error {
					return b.Follow(ctx, l.client, prefix, patience, news)
				}, l.prefix+prefix)
			}
		})
	}
	return cmd
}

type changeInfo struct {
	Time   time.Time `json:"time"`
	Change string    `json:"change"` // holds, waits, left, freed, speaks, stray
	Name   string    `json:"name,omitempty"`
	placeInfo
	Position int        `json:"position,omitempty"`
	Before   *placeInfo `json:"before,omitempty"`
}

var changeWords = map[board.Kind]string{
	board.Holds: "holds", board.Waits: "waits", board.Left: "left", board.Freed: "freed", board.Speaks: "speaks", board.Stray: "stray",
}

func changeInfoOf(c board.Change) changeInfo {
	info := changeInfo{Time: c.At.UTC(), Change: changeWords[c.Kind], Name: c.Name, placeInfo: placeInfoOf(c.Place), Position: c.Position}
	info.Left = nil // it was not asked for
	if c.Before.Token != 0 {
		before := placeInfoOf(c.Before)
		before.Left = nil
		info.Before = &before
	}
	return info
}

func changeLine(c board.Change) string {
	text := c.At.Format(time.TimeOnly) + "  " + printable(c.Name)
	who := printable(c.Place.Holder)
	switch c.Kind {
	case board.Holds:
		text += fmt.Sprintf(": %s holds, token %v", who, c.Place.Token)
		if c.Before.Token != 0 {
			text += fmt.Sprintf(" (before: %s, token %v)", printable(c.Before.Holder), c.Before.Token)
		}
	case board.Waits:
		text += fmt.Sprintf(": %s waits as number %d, token %v", who, c.Position, c.Place.Token)
	case board.Left:
		text += fmt.Sprintf(": %s waits no more, token %v", who, c.Place.Token)
	case board.Freed:
		text += fmt.Sprintf(": free (before: %s, token %v)", who, c.Place.Token)
	case board.Speaks:
		text += fmt.Sprintf(": token %v says %s", c.Place.Token, who)
	case board.Stray:
		text += fmt.Sprintf("stray key %s", printable(c.Place.Key))
	}
	if c.Place.Problem != "" {
		text += " ! " + c.Place.Problem
	}
	return text
}

// Escape sequences of the live screen: an alternate screen without a cursor, so that the shell's comes back untouched.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	homeScreen  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// keptChanges is how many of the last changes are remembered for the screen.
const keptChanges = 100

// liveScreen draws the board at every change, and once a second for the times in it.
func (a *app) liveScreen(ctx context.Context, b *board.Board, follow func(context.Context, func(board.Change)) error, title string) error {
	// The board belongs to the goroutine that follows; it hands copies over.
	type picture struct {
		standings []board.Standing
		change    board.Change
	}
	pictures := make(chan picture, 64)
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(follow(ctx, func(c board.Change) {
			select {
			case pictures <- picture{b.Standings(), c}:
			case <-ctx.Done():
			}
		}))
	}()
	defer func() { cancel(nil); <-ended }()

	fmt.Fprint(a.stdout, enterScreen)
	defer fmt.Fprint(a.stdout, leaveScreen)
	var standings []board.Standing
	var changes []board.Change
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		fmt.Fprint(a.stdout, frame(title, standings, changes, a.screen(), time.Now()))
		select {
		case p := <-pictures:
			standings, changes = p.standings, append(changes, p.change)
			if len(changes) > keptChanges {
				changes = changes[1:]
			}
		case <-second.C:
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
	}
}

// frame draws one screen.
func frame(title string, standings []board.Standing, changes []board.Change, screen terminal.Screen, now time.Time) string {
	news := min(len(changes), max(screen.Height/3, 3))
	room := max(screen.Height-news-5, 1)
	t := &table{head: []string{"NAME", "HOLDER", "TOKEN", "HELD", "WAITING"}, keep: []bool{2: true, 3: true, 4: true}}
	waiting := 0
	for i, s := range standings {
		waiting += len(s.Places) - 1
		if i >= room {
			continue
		}
		p := s.Places[0]
		holder := p.Holder
		if p.Problem != "" {
			holder = "! " + holder + ": " + p.Problem
		}
		since := max(now.Sub(s.Since), 0).Round(time.Second).String()
		if !s.Exact {
			since = "> " + since // it held when we came
		}
		t.add(s.Name, holder, p.Token.String(), since, fmt.Sprint(len(s.Places)-1))
	}
	var b strings.Builder
	line := func(text string) {
		if r := []rune(text); len(r) > screen.Width && !strings.ContainsRune(text, '\x1b') {
			text = string(r[:screen.Width])
		}
		b.WriteString(text + clearLine + "\r\n")
	}
	b.WriteString(homeScreen)
	line(fmt.Sprintf("%s  %d held, %d waiting  %s", printable(title), len(standings), waiting, now.Format(time.TimeOnly)))
	line("")
	for text := range strings.Lines(t.text(screen)) {
		line(strings.TrimRight(text, "\n"))
	}
	if more := len(standings) - room; more > 0 {
		line(fmt.Sprintf("and %d more", more))
	}
	line("")
	for _, c := range changes[len(changes)-news:] {
		line(changeLine(c))
	}
	return strings.TrimSuffix(b.String(), "\r\n") + clearBelow
}
