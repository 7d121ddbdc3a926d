// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"fmt"
	"io"
	"strings"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
)

// narrator prints what happens as it happens, and keeps count of what should have held and did not.
type narrator struct {
	out    io.Writer
	screen terminal.Screen
	failed []string
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
func (n *narrator) heading(text string) { fmt.Fprintf(n.out, "\n%s\n", n.paint("1", text)) }

// tell prints one event with its offset from the start.
func (n *narrator) tell(at time.Duration, who, hue, format string, args ...any) {
	head := fmt.Sprintf("%6.2f s  %s ", at.Seconds(), n.paint(hue, fmt.Sprintf("%-8s", who)))
	n.paragraph(head, 19, fmt.Sprintf(format, args...))
}

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
	n.paragraph("          "+n.paint(hue, mark)+" ", 12, text)
	return ok
}
