// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
)

//go:embed report.html
var page string

// drawing is what the page draws. Times are milliseconds since the beginning. The long lists are rows of numbers, from which the page makes
// its texts: a run of twenty minutes has tens of thousands of grants, and its page should still be easy to send.
type drawing struct {
	Title   string      `json:"title"`
	Failed  bool        `json:"failed"`
	Figures [][2]string `json:"figures"`
	Main    float64     `json:"main"` // where the data no longer goes back
	Calm    float64     `json:"calm"` // where the faults end
	End     float64     `json:"end"`
	Workers []string    `json:"workers"` // process and goroutine
	Whys    []string    `json:"whys"`    // how beliefs ended
	Lanes   []lane      `json:"lanes"`   // one for each name
	Faults  []faultLane `json:"faults"`  // one for each kind
}

// lane is what happened to one name.
type lane struct {
	Name     string       `json:"name"`
	Holders  [][7]float64 `json:"holders"`  // from, length, worker, number of its grant, token, waited, why
	Overlaps [][5]float64 `json:"overlaps"` // from, length, indices of the two holders, 1 if an operator or a rollback excuses it
	Refused  [][5]float64 `json:"refused"`  // from, length, worker, token, highest token
}

// faultLane is when there was one kind of fault.
type faultLane struct {
	Kind  string       `json:"kind"`
	Times [][2]float64 `json:"times"` // from, length
	Texts []string     `json:"texts"`
}

// report writes the page.
func report(path string, h *history, v *verdict) error {
	data, err := json.Marshal(draw(h, v))
	if err != nil {
		return err
	}
	text := strings.NewReplacer(
		"{{title}}", html.EscapeString(title(h)),
		"{{data}}", string(data), // encoding/json escapes <, > and &
	).Replace(page)
	return os.WriteFile(path, []byte(text), 0o644)
}

func title(h *history) string { return fmt.Sprintf("Torture of %s, seed %d", h.Subject, h.Seed) }

// numbers gives texts numbers, in the order in which they come.
type numbers struct {
	texts []string
	of    map[string]int
}

func (n *numbers) number(text string) float64 {
	i, ok := n.of[text]
	if !ok {
		i = len(n.texts)
		n.texts = append(n.texts, text)
		n.of[text] = i
	}
	return float64(i)
}

func draw(h *history, v *verdict) drawing {
	ms := func(t instant) float64 { return math.Round(float64(t-h.Begin)/1e5) / 10 }
	span := func(from, to instant) float64 { return math.Round(float64(to-from)/1e4) / 100 }
	workers, whys := &numbers{of: make(map[string]int)}, &numbers{of: make(map[string]int)}
	d := drawing{
		Title: title(h), Failed: v.failed(), Figures: v.lines(h),
		Main: ms(h.Main), Calm: ms(h.Calm), End: ms(h.End), Faults: faultLanes(h, ms),
	}
	for _, name := range h.Names {
		// Not null, which the page would have to know.
		l := lane{Name: name, Holders: [][7]float64{}, Overlaps: [][5]float64{}, Refused: [][5]float64{}}
		place := make(map[int]float64)
		for _, i := range h.of(name) {
			b := h.Beliefs[i]
			place[i] = float64(len(l.Holders))
			why := b.Why
			if b.Release != "" && b.Release != b.Why {
				why += "; its release: " + errorKind(b.Release)
			}
			l.Holders = append(l.Holders, [7]float64{
				ms(b.First), span(b.First, b.end()), workers.number(b.Worker), grantNumber(b), float64(b.Token), span(b.Asked, b.First), whys.number(why),
			})
		}
		for _, o := range v.Overlaps {
			if o.Name == name {
				excused := 0.0
				if o.Operator {
					excused = 1
				}
				l.Overlaps = append(l.Overlaps, [5]float64{ms(o.Begin), span(o.Begin, o.End), place[o.A], place[o.B], excused})
			}
		}
		for _, w := range h.Writes {
			if w.Name == name && w.Return != 0 && !w.OK && !w.Read {
				l.Refused = append(l.Refused, [5]float64{ms(w.Call), span(w.Call, w.Return), workers.number(w.Worker), float64(w.Token), float64(w.Highest)})
			}
		}
		d.Lanes = append(d.Lanes, l)
	}
	d.Workers, d.Whys = workers.texts, whys.texts
	return d
}

// grantNumber is the last part of a belief's ID.
func grantNumber(b belief) float64 {
	n := 0
	if _, err := fmt.Sscanf(strings.TrimPrefix(b.ID, b.Worker+"-"), "%d", &n); err != nil {
		return 0
	}
	return float64(n)
}

// laneOrder is the order of the kinds of faults on the page, by what they concern.
var laneOrder = []string{
	"save", rollBack, wipe, replace, "raise revision",
	"kill", "stop", "pause", "isolate", "cut", "cutoneway", "lead", "compact", isolateLeader, loseQuorum, killAll,
	"hold", "blackhole", "delay", "limit", "refuse", "reset",
	"all links hold", "all links blackhole", "all links delay", "all links limit", "all links refuse", "all links reset",
	sigstop, stopBeforeWrite, sigkill, slowRegister,
	operatorDelete, operatorOverwrite, "take back", operatorRevoke, operatorNoSpace,
}

func faultLanes(h *history, ms func(instant) float64) []faultLane {
	order := slices.Clone(laneOrder)
	lanes := make(map[string]*faultLane)
	for _, f := range h.Faults {
		l := lanes[f.Kind]
		if l == nil {
			l = &faultLane{Kind: f.Kind}
			lanes[f.Kind] = l
			if !slices.Contains(laneOrder, f.Kind) {
				order = append(order, f.Kind)
			}
		}
		l.Times = append(l.Times, [2]float64{ms(f.Begin), math.Round(float64(f.End-f.Begin)/1e4) / 100})
		l.Texts = append(l.Texts, f.What)
	}
	out := []faultLane{}
	for _, kind := range order {
		if l := lanes[kind]; l != nil {
			out = append(out, *l)
		}
	}
	return out
}
