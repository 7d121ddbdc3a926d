// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"os"
	"strings"
	"time"
)

//go:embed report.html
var page string

// What the page draws. Times are milliseconds since the beginning.
type (
	drawing struct {
		Title string   `json:"title"`
		Calm  float64  `json:"calm"`
		End   float64  `json:"end"`
		Rows  []row    `json:"rows"`
		Marks []marked `json:"marks"` // where a reader may want to look first
	}
	row struct {
		Label string `json:"label"`
		Bars  []bar  `json:"bars"`
		Kind  string `json:"kind"`
	}
	bar struct {
		From  float64 `json:"f"`
		To    float64 `json:"t"`
		Color int     `json:"c"` // by worker slot or kind of fault; -1 for what must not be
		Text  string  `json:"x"`
	}
	marked struct {
		At   float64 `json:"at"`
		Text string  `json:"x"`
	}
)

// report writes the page.
func report(path string, h *history, v *verdict) error {
	data, err := json.Marshal(draw(h, v))
	if err != nil {
		return err
	}
	text := strings.NewReplacer(
		"{{summary}}", html.EscapeString(v.summary(h)),
		"{{data}}", string(data), // encoding/json escapes <, > and &
	).Replace(page)
	return os.WriteFile(path, []byte(text), 0o644)
}

func draw(h *history, v *verdict) drawing {
	ms := func(t instant) float64 { return float64((t-h.Begin)/1000) / 1000 }
	d := drawing{
		Title: fmt.Sprintf("%s, seed %d", h.Subject, h.Seed), Calm: ms(h.Calm), End: ms(h.End), Marks: []marked{},
	}
	for _, name := range h.Names {
		holders := row{Label: name, Kind: "holders", Bars: []bar{}} // not null, which the page cannot draw
		for _, i := range h.of(name) {
			b := h.Beliefs[i]
			holders.Bars = append(holders.Bars, bar{ms(b.First), ms(b.Last), slotOf(b.Worker), fmt.Sprintf(
				"%s, token %d, %v, asked %v before; ended: %s %s", b.ID, b.Token, time.Duration(b.Last-b.First).Round(time.Millisecond),
				time.Duration(b.First-b.Asked).Round(time.Millisecond), b.Why, b.Release)})
		}
		d.Rows = append(d.Rows, holders)
		overlaps := row{Label: name + " overlaps", Kind: "overlaps", Bars: []bar{}}
		for _, o := range v.Overlaps {
			if o.Name != name {
				continue
			}
			b := bar{ms(o.Begin), ms(o.End), -1, fmt.Sprintf("%s and %s for %v", h.Beliefs[o.A].ID, h.Beliefs[o.B].ID, time.Duration(o.End-o.Begin).Round(time.Millisecond))}
			if o.Operator {
				b.Color, b.Text = 8, b.Text+", not yet told of the operator"
			} else {
				d.Marks = append(d.Marks, marked{b.From, name + ": " + b.Text})
			}
			overlaps.Bars = append(overlaps.Bars, b)
		}
		d.Rows = append(d.Rows, overlaps)
		refused := row{Label: name + " refused", Kind: "refused", Bars: []bar{}}
		for _, w := range h.Writes {
			if w.Name == name && w.Return != 0 && !w.OK && !w.Read {
				refused.Bars = append(refused.Bars, bar{ms(w.Call), ms(w.Return), slotOf(w.Worker), fmt.Sprintf("%s: token %d is below %d", w.Belief, w.Token, w.Highest)})
			}
		}
		d.Rows = append(d.Rows, refused)
	}
	return d.withFaults(h, ms)
}

// withFaults adds a row for each kind of fault, and for each worker and each member what happened to it.
func (d drawing) withFaults(h *history, ms func(instant) float64) drawing {
	rows := make(map[string]int)
	for n, f := range h.Faults {
		label := f.Kind
		switch {
		case f.Worker >= 0:
			label = fmt.Sprintf("w%d", f.Worker)
		case f.Member >= 0:
			label = fmt.Sprintf("member %d", f.Member)
		}
		i, ok := rows[label]
		if !ok {
			i = len(d.Rows)
			rows[label] = i
			d.Rows = append(d.Rows, row{Label: label, Kind: "faults"})
		}
		d.Rows[i].Bars = append(d.Rows[i].Bars, bar{ms(f.Begin), ms(f.End), kindColor(h, n), f.Kind + ": " + f.What})
	}
	return d
}

// kindColor gives each kind of fault a number.
func kindColor(h *history, n int) int {
	seen := make(map[string]int)
	for _, f := range h.Faults[:n+1] {
		if _, ok := seen[f.Kind]; !ok {
			seen[f.Kind] = len(seen)
		}
	}
	return seen[h.Faults[n].Kind]
}

func slotOf(worker string) int {
	var slot int
	if _, err := fmt.Sscanf(worker, "w%d.", &slot); err != nil {
		return 0
	}
	return slot
}
