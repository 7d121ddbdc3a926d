// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
)

// narrator prints what happens as it happens, and keeps count of what should have held and did not.
//
// Who tells of an event needs some time for it, one more than the other. So events are kept back for a moment and printed in the
// order of their instants; everything else that is printed comes after all of them.
type narrator struct {
	out    io.Writer
	screen terminal.Screen
	failed []string
	queue  []untold // events that are not printed yet
}

func (n *narrator) paint(ansi, text string) string {
	if !n.screen.Colour {
		return text
	}
	return "\x1b[" + ansi + "m" + text + "\x1b[0m"
}

// paragraph prints text behind a head of the given number of columns, wrapped to the screen.
func (n *narrator) paragraph(head string, columns int, text string) {
	for i, line := range terminal.Wrap(text, max(n.screen.Width-columns, 20)) {
		if i > 0 {
			head = strings.Repeat(" ", columns)
		}
		fmt.Fprintf(n.out, "%s%s\n", head, line)
	}
}

// heading opens a chapter.
func (n *narrator) heading(text string) {
	n.flush()
	fmt.Fprintf(n.out, "\n%s\n", n.paint("1", text))
}

// untold is an event that is kept back.
type untold struct {
	at        time.Duration
	who, text string // who: already in its column and colour
}

// tell takes in one event with its offset from the start, for the next flush.
func (n *narrator) tell(at time.Duration, who, hue, format string, args ...any) {
	n.queue = append(n.queue, untold{at, n.paint(hue, fmt.Sprintf("%-8s", who)), fmt.Sprintf(format, args...)})
}

// flushUntil prints the events up to the offset.
func (n *narrator) flushUntil(at time.Duration) {
	slices.SortStableFunc(n.queue, func(a, b untold) int { return cmp.Compare(a.at, b.at) })
	for len(n.queue) > 0 && n.queue[0].at <= at {
		e := n.queue[0]
		n.queue = n.queue[1:]
		n.paragraph(fmt.Sprintf("%6.2f s  %s ", e.at.Seconds(), e.who), 19, e.text)
	}
}

// flush prints all events.
func (n *narrator) flush() { n.flushUntil(math.MaxInt64) }

// expect prints whether something that must hold did, and returns it.
func (n *narrator) expect(ok bool, format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	mark, hue := "✓", "32"
	if n.screen.ASCII {
		mark = "+"
	}
	if !ok {
		n.failed = append(n.failed, text)
		mark, hue = "!", "1;31"
		text = "FAILED: " + text
	}
	n.flush()
	n.paragraph("          "+n.paint(hue, mark)+" ", 12, text)
	return ok
}
