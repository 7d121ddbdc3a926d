// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
)

// Style says what the terminal can show.
type Style struct {
	Width  int  // columns; below 40 is drawn as 40
	Colour bool // ANSI colours, which only repeat what the shapes say
	ASCII  bool // for locales without UTF-8
}

type cell struct {
	glyph  rune
	colour string // ANSI parameters; empty for none
}

var ansiHues = [...]string{"90", "34", "33", "32"}

// Text draws the picture in lines for a terminal; each ends with a newline and none is wider than the style's width.
func (p Picture) Text(style Style) string {
	style.Width = max(style.Width, 40)
	c := &canvas{p: p, style: style, events: p.letters(), gutter: len("seconds ")}
	for _, lane := range p.Lanes {
		c.gutter = max(c.gutter, utf8.RuneCountInString(lane.Name)+1)
	}
	c.gutter = min(c.gutter, style.Width/3)
	c.columns = style.Width - c.gutter

	c.line(p.Title, "1")
	for _, line := range terminal.Wrap(p.Subtitle, style.Width) {
		c.line(line, "90")
	}
	c.out.WriteByte('\n')
	c.letters()
	for _, lane := range p.Lanes {
		c.lane(lane)
	}
	c.axis()
	c.out.WriteByte('\n')
	c.legend()
	c.out.WriteByte('\n')
	for i, e := range c.events {
		head := fmt.Sprintf("%c %6.2f s  ", 'A'+rune(i), e.At.Seconds())
		for j, line := range terminal.Wrap(e.Text, style.Width-len(head)) {
			if j > 0 {
				head = strings.Repeat(" ", len(head))
			}
			c.line(head+line, "")
		}
	}
	return c.out.String()
}

type canvas struct {
	p       Picture
	style   Style
	events  []Event
	gutter  int // columns before the axis
	columns int // columns of the axis
	out     strings.Builder
}

func (c *canvas) column(at time.Duration) int {
	at = min(max(at, 0), c.p.Length)
	return min(int(int64(at)*int64(c.columns)/int64(max(c.p.Length, 1))), c.columns-1)
}

func (c *canvas) row() []cell {
	row := make([]cell, c.columns)
	for i := range row {
		row[i] = cell{glyph: ' '}
	}
	return row
}

// letters writes the row of events; one whose column is taken moves to the next free one.
func (c *canvas) letters() {
	row := c.row()
	for i, e := range c.events {
		col := c.column(e.At)
		for col < len(row)-1 && row[col].glyph != ' ' {
			col++
		}
		row[col] = cell{'A' + rune(i), "1"}
	}
	c.write("", row)
}

func (c *canvas) lane(lane Lane) {
	row := c.row()
	for i, s := range lane.Spans {
		c.span(row, s)
		c.label(row, s, lane.visible(i))
	}
	for _, t := range lane.Ticks {
		if t.Refused {
			row[c.column(t.At)] = cell{c.glyph('✗', 'X'), "1;31"}
		}
	}
	c.write(lane.Name, row)
}

func (c *canvas) span(row []cell, s Span) {
	from, to := c.column(s.From), max(c.column(s.To), c.column(s.From)+1)
	for i := from; i < min(to, len(row)); i++ {
		believed := row[i].glyph == c.spanCell(Believes, 0).glyph
		row[i] = c.spanCell(s.Kind, s.Hue)
		if s.Kind == Stopped && believed {
			row[i] = cell{c.glyph('▓', '%'), "35"}
		}
	}
}

// label writes what fits of the span's label into its visible part, one cell from the start.
func (c *canvas) label(row []cell, s Span, visible time.Duration) {
	from, to := c.column(s.From), c.column(visible)
	text := s.shortest(func(text string) bool { return utf8.RuneCountInString(text)+1 <= to-from })
	for i, r := range []rune(text) {
		row[from+1+i] = cell{r, row[from].colour + ";7"}
	}
}

func (c *canvas) spanCell(k Kind, hue int) cell {
	colour := ansiHues[min(max(hue, 0), len(ansiHues)-1)]
	switch k {
	case Waits:
		return cell{c.glyph('·', '.'), "90"}
	case Believes:
		return cell{c.glyph('█', '#'), colour}
	case Stopped:
		return cell{c.glyph('░', ':'), "35"}
	case Accepts:
		return cell{c.glyph('═', '='), colour}
	case Leads:
		return cell{c.glyph('━', 'L'), "36"}
	case Follows:
		return cell{c.glyph('─', '-'), "90"}
	case Down:
		return cell{c.glyph('╳', '!'), "31"}
	}
	return cell{glyph: ' '}
}

func (c *canvas) glyph(utf, ascii rune) rune {
	if c.style.ASCII {
		return ascii
	}
	return utf
}

func (c *canvas) axis() {
	line, numbers := c.row(), c.row()
	for i := range line {
		line[i] = cell{c.glyph('─', '-'), "90"}
	}
	step := c.p.step(c.columns / 6)
	for at := time.Duration(0); at <= c.p.Length; at += step {
		col := c.column(at)
		text := fmt.Sprintf("%g", at.Seconds())
		if col+len(text) > len(numbers) {
			break
		}
		line[col] = cell{c.glyph('┴', '+'), "90"}
		for i, r := range text {
			numbers[col+i] = cell{r, "90"}
		}
	}
	c.write("", line)
	c.write("seconds", numbers)
}

func (c *canvas) legend() {
	type sample struct {
		cells []cell
		text  string
	}
	var samples []sample
	for _, k := range c.p.kinds() {
		one := c.spanCell(k, 1)
		text := k.legend()
		cells := []cell{one, one}
		if k == Stopped {
			cells = []cell{{c.glyph('▓', '%'), "35"}, one}
			text = "stopped in its term / past its term"
		}
		samples = append(samples, sample{cells, text})
	}
	samples = append(samples, sample{[]cell{{c.glyph('✗', 'X'), "1;31"}}, "write refused"})
	used := 0
	for _, s := range samples {
		width := len(s.cells) + 1 + utf8.RuneCountInString(s.text)
		switch {
		case used == 0:
		case used+3+width > c.style.Width:
			c.out.WriteByte('\n')
			used = 0
		default:
			c.out.WriteString("   ")
			used += 3
		}
		c.cells(s.cells)
		c.out.WriteString(" " + s.text)
		used += width
	}
	c.out.WriteByte('\n')
}

func (c *canvas) write(name string, row []cell) {
	for len(row) > 0 && row[len(row)-1].glyph == ' ' {
		row = row[:len(row)-1]
	}
	runes := []rune(name)
	if len(runes) >= c.gutter {
		runes = runes[:c.gutter-1]
	}
	c.out.WriteString(string(runes))
	if len(row) > 0 {
		c.out.WriteString(strings.Repeat(" ", c.gutter-len(runes)))
		c.cells(row)
	}
	c.out.WriteByte('\n')
}

// cells writes a run of cells, with one escape sequence for each change of colour.
func (c *canvas) cells(row []cell) {
	colour := ""
	set := func(to string) {
		if !c.style.Colour || to == colour {
			return
		}
		c.out.WriteString("\x1b[0m")
		if to != "" {
			c.out.WriteString("\x1b[" + to + "m")
		}
		colour = to
	}
	for _, cl := range row {
		set(cl.colour)
		c.out.WriteRune(cl.glyph)
	}
	set("")
}

func (c *canvas) line(text, colour string) {
	if c.style.Colour && colour != "" {
		text = "\x1b[" + colour + "m" + text + "\x1b[0m"
	}
	c.out.WriteString(text + "\n")
}
