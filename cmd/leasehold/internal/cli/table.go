// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
)

// printable makes a text that comes from etcd fit for a terminal: a name or a value can contain anything, escape
// sequences too.
func printable(s string) string {
	plain := func(r rune) bool { return r != utf8.RuneError && strconv.IsPrint(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	quoted := strconv.Quote(s)
	return quoted[1 : len(quoted)-1]
}

// table is rows of columns for people. Columns that do not fit the terminal are shortened, the widest ones first; a table
// that is no terminal's is never shortened.
type table struct {
	head []string
	rows [][]string
	keep []bool // by column: it is never shortened
}

func (t *table) add(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// leastWidth is what a column is not shortened below.
const leastWidth = 5

func (t *table) widths(screen terminal.Screen) []int {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if !screen.Terminal {
		return widths
	}
	for {
		total, widest := 2*(len(widths)-1), -1
		for i, w := range widths {
			total += w
			if w > leastWidth && (i >= len(t.keep) || !t.keep[i]) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if total <= screen.Width || widest < 0 {
			return widths
		}
		widths[widest] -= max(min(total-screen.Width, widths[widest]-leastWidth)/4, 1)
	}
}

// text returns the table, each line with a newline at its end and no spaces before it.
func (t *table) text(screen terminal.Screen) string {
	widths := t.widths(screen)
	ellipsis := "…"
	if screen.ASCII {
		ellipsis = "~"
	}
	var b strings.Builder
	line := func(row []string, head bool) {
		var cells []string
		for i, cell := range row {
			if r := []rune(cell); len(r) > widths[i] {
				cell = string(r[:widths[i]-1]) + ellipsis
			}
			cells = append(cells, fmt.Sprintf("%-*s", widths[i], cell))
		}
		text := strings.TrimRight(strings.Join(cells, "  "), " ")
		if head && screen.Colour {
			text = "\x1b[1m" + text + "\x1b[0m"
		}
		b.WriteString(text + "\n")
	}
	line(t.head, true)
	for _, row := range t.rows {
		line(row, false)
	}
	return b.String()
}
