// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"fmt"
	"html"
	"time"
	"unicode/utf8"
)

// The drawing's measures, in pixels of its own coordinates.
const (
	svgWidth   = 1120
	svgLeft    = 128 // where the axis begins; lane names stand before it
	svgRight   = svgWidth - 36
	laneHeight = 46
	barHeight  = 24
	letterStep = 22 // distance between two rows of lettered circles, and of two circles in one row
	listStep   = 20
	fontWidth  = 0.58 // of the font size: the average advance of a letter, on the safe side
)

// hues are told apart by people with any kind of colour vision (Okabe and Ito); text on them takes inks.
var (
	hues = [...]string{"#64748b", "#0072b2", "#e69f00", "#009e73"}
	inks = [...]string{"#ffffff", "#ffffff", "#1f2937", "#ffffff"}
)

const (
	refusedColour = "#c1121f"
	leadsColour   = "#475569"
)

// SVG returns the picture as a file of its own: no script, no font, no reference to anything outside.
func (p Picture) SVG() []byte {
	d := &drawing{p: p, events: p.letters()}
	d.rows = d.placeLetters()
	d.top = 74 + letterStep*len(d.rows)
	d.bottom = d.top + laneHeight*len(p.Lanes)
	legend := d.placeLegend()
	list := legend[len(legend)-1].y + 44
	height := list + listStep*len(d.events) + 12

	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif" font-size="13" fill="#1f2937">`, svgWidth, height, svgWidth, height)
	d.printf(`<title>%s</title><desc>%s</desc>`, html.EscapeString(p.Title), html.EscapeString(p.Subtitle))
	d.printf(`<defs><pattern id="hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="7" height="7" fill="#ffffff" fill-opacity="0.45"/><rect width="3" height="7" fill="#1f2937" fill-opacity="0.75"/></pattern></defs>`)
	d.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`, svgWidth, height)
	d.printf(`<text x="24" y="34" font-size="20" font-weight="600">%s</text>`, html.EscapeString(p.Title))
	d.printf(`<text x="24" y="56" fill="#475569">%s</text>`, html.EscapeString(p.Subtitle))
	d.axis()
	for i, lane := range p.Lanes {
		d.lane(i, lane)
	}
	d.letters()
	for i, lane := range p.Lanes { // after the events' lines, which would cross them
		d.labels(i, lane)
	}
	for _, item := range legend {
		d.legendItem(item)
	}
	d.list(list)
	d.printf(`</svg>`)
	return d.out.Bytes()
}

type drawing struct {
	p           Picture
	events      []Event
	rows        [][]int // indexes of events by row of circles, the lowest row first
	top, bottom int     // of the lanes
	out         bytes.Buffer
}

func (d *drawing) printf(format string, args ...any) {
	fmt.Fprintf(&d.out, format+"\n", args...)
}

func (d *drawing) line(x1 float64, y1 int, x2 float64, y2 int, style string) {
	d.printf(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" %s/>`, x1, y1, x2, y2, style)
}

func (d *drawing) x(at time.Duration) float64 {
	at = min(max(at, 0), d.p.Length)
	return svgLeft + float64(svgRight-svgLeft)*float64(at)/float64(max(d.p.Length, 1))
}

func (d *drawing) laneY(i int) int { return d.top + laneHeight*i + laneHeight/2 }

// placeLetters gives each event the lowest row in which its circle touches no other.
func (d *drawing) placeLetters() [][]int {
	var rows [][]int
next:
	for i, e := range d.events {
		for r, row := range rows {
			if d.x(e.At)-d.x(d.events[row[len(row)-1]].At) >= letterStep {
				rows[r] = append(row, i)
				continue next
			}
		}
		rows = append(rows, []int{i})
	}
	return rows
}

func (d *drawing) axis() {
	for i := range d.p.Lanes {
		if i%2 == 0 {
			d.printf(`<rect x="12" y="%d" width="%d" height="%d" fill="#f8fafc"/>`, d.top+laneHeight*i, svgWidth-24, laneHeight)
		}
	}
	step := d.p.step(16)
	for at := time.Duration(0); at <= d.p.Length; at += step {
		x := d.x(at)
		d.line(x, d.top, x, d.bottom, `stroke="#e2e8f0"`)
		d.printf(`<text x="%.1f" y="%d" text-anchor="middle" font-size="12" fill="#475569">%g</text>`, x, d.bottom+17, at.Seconds())
	}
	d.line(svgLeft, d.bottom, svgRight, d.bottom, `stroke="#94a3b8"`)
	d.printf(`<text x="24" y="%d" font-size="12" fill="#475569">seconds</text>`, d.bottom+17)
}

func (d *drawing) lane(i int, lane Lane) {
	y := d.laneY(i)
	nameY := y + 5
	if lane.Note != "" {
		nameY = y - 2
		d.printf(`<text x="24" y="%d" font-size="11" fill="#64748b">%s</text>`, y+13, html.EscapeString(lane.Note))
	}
	d.printf(`<text x="24" y="%d" font-weight="600">%s</text>`, nameY, html.EscapeString(lane.Name))
	for _, s := range lane.Spans {
		d.span(d.x(s.From), d.x(s.To), y, s)
	}
}

func (d *drawing) labels(i int, lane Lane) {
	for j, s := range lane.Spans {
		d.label(d.x(s.From), d.x(lane.visible(j)), d.laneY(i), s)
	}
	for _, t := range lane.Ticks { // last: no halo hides a write
		d.tick(d.x(t.At), d.laneY(i), t)
	}
}

func (d *drawing) span(x1, x2 float64, y int, s Span) {
	width := max(x2-x1, 1.5) // a short span is still seen
	bar := func(height int, style string) {
		d.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%d" %s/>`, x1, float64(y)-float64(height)/2, width, height, style)
	}
	hue := hues[min(max(s.Hue, 0), len(hues)-1)]
	switch s.Kind {
	case Waits:
		d.line(x1, y, x2, y, `stroke="#94a3b8" stroke-width="2" stroke-dasharray="2 4"`)
	case Believes:
		bar(barHeight, `rx="3" fill="`+hue+`"`)
	case Stopped:
		bar(barHeight-10, `fill="url(#hatch)" stroke="#1f2937"`)
	case Accepts:
		bar(14, `fill="`+hue+`" fill-opacity="0.22"`)
	case Leads:
		bar(barHeight-4, `rx="3" fill="`+leadsColour+`"`)
	case Follows:
		bar(5, `rx="2" fill="#cbd5e1"`)
	case Down:
		bar(barHeight-6, `fill="#ffffff" stroke="`+refusedColour+`" stroke-dasharray="4 3"`)
	}
}

// label writes as much of the span's label as fits between x1 and x2, with a halo in the colour behind it that keeps
// lines off its letters.
func (d *drawing) label(x1, x2 float64, y int, s Span) {
	fits := func(text string) bool { return textWidth(text, 12)+10 <= x2-x1 }
	text := s.shortest(fits)
	if text == "" {
		return
	}
	ink, halo := "#1f2937", "#ffffff"
	switch s.Kind {
	case Believes:
		hue := min(max(s.Hue, 0), len(inks)-1)
		ink, halo = inks[hue], hues[hue]
	case Leads:
		ink, halo = "#ffffff", leadsColour
	case Down:
		ink = refusedColour
	}
	d.printf(`<text x="%.1f" y="%d" font-size="12" font-weight="600" fill="%s" stroke="%s" stroke-width="4" stroke-linejoin="round" paint-order="stroke">%s</text>`, x1+7, y+4, ink, halo, html.EscapeString(text))
}

func (d *drawing) tick(x float64, y int, t Tick) {
	if t.Refused {
		style := `stroke-width="3.5" stroke-linecap="round" stroke="` + refusedColour + `"`
		d.line(x-7, y-7, x+7, y+7, style)
		d.line(x-7, y+7, x+7, y-7, style)
		return
	}
	d.line(x, y+7, x, y+14, `stroke-width="1.6" stroke="`+hues[min(max(t.Hue, 0), len(hues)-1)]+`"`)
}

func (d *drawing) letters() {
	for _, e := range d.events {
		x, end := d.x(e.At), d.laneY(e.Lane)-barHeight/2-2
		d.line(x, d.top-5, x, end, `stroke="#334155" stroke-dasharray="1 3"`)
		d.printf(`<path d="M%.1f %d l-3.5 -6 h7 z" fill="#334155"/>`, x, end+3)
	}
	for r, row := range d.rows {
		cy := d.top - 14 - letterStep*r
		for _, i := range row {
			x := d.x(d.events[i].At)
			d.line(x, cy+9, x, d.top-5, `stroke="#334155" stroke-dasharray="1 3"`)
		}
	}
	for r, row := range d.rows { // last, so that no line crosses a letter
		for _, i := range row {
			d.circle(d.x(d.events[i].At), d.top-14-letterStep*r, i)
		}
	}
}

func (d *drawing) circle(x float64, y, i int) {
	d.printf(`<circle cx="%.1f" cy="%d" r="9" fill="#334155"/>`, x, y)
	d.printf(`<text x="%.1f" y="%d" text-anchor="middle" font-size="12" font-weight="600" fill="#ffffff">%c</text>`, x, y+4, 'A'+rune(i))
}

type legendItem struct {
	x, y    int
	kind    Kind // 0: the accepted or refused write
	refused bool
	text    string
}

// placeLegend lays the samples out in lines below the axis.
func (d *drawing) placeLegend() []legendItem {
	var items []legendItem
	for _, k := range d.p.kinds() {
		items = append(items, legendItem{kind: k, text: k.legend()})
	}
	items = append(items, legendItem{text: "write accepted"}, legendItem{refused: true, text: "write refused"})
	x, y := 24, d.bottom+48
	for i := range items {
		width := 40 + int(textWidth(items[i].text, 12)) + 22
		if x+width > svgWidth-12 {
			x, y = 24, y+24
		}
		items[i].x, items[i].y = x, y
		x += width
	}
	return items
}

func (d *drawing) legendItem(item legendItem) {
	x := float64(item.x)
	switch {
	case item.kind != 0:
		d.span(x, x+32, item.y, Span{Kind: item.kind, Hue: 1})
	default:
		y := item.y
		if !item.refused {
			y -= 10
		}
		d.tick(x+16, y, Tick{Refused: item.refused, Hue: 1})
	}
	d.printf(`<text x="%d" y="%d" font-size="12">%s</text>`, item.x+40, item.y+4, html.EscapeString(item.text))
}

func (d *drawing) list(y int) {
	for i, e := range d.events {
		d.circle(34, y, i)
		d.printf(`<text x="98" y="%d" text-anchor="end" fill="#475569">%.2f s</text>`, y+5, e.At.Seconds())
		d.printf(`<text x="112" y="%d">%s</text>`, y+5, html.EscapeString(e.Text))
		y += listStep
	}
}

func textWidth(s string, size float64) float64 {
	return float64(utf8.RuneCountInString(s)) * size * fontWidth
}
