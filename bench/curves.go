// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"path/filepath"

	"example.com/leasehold/bench/internal/chart"
	"example.com/leasehold/bench/internal/report"
)

// labels are how the subjects are called in drawings.
var labels = map[subject]string{ours: "Leasehold", theirs: "concurrency", floor: "bare etcd"}

// curves collects what the subjects were measured at over a growing load.
type curves struct {
	loads []float64
	taken []taken
}

func (c *curves) add(load float64, t taken) {
	c.loads = append(c.loads, load)
	c.taken = append(c.taken, t)
}

// of is one curve a subject of one metric, in units of 1/scale.
func (c *curves) of(metric string, scale float64) []chart.Curve {
	var drawn []chart.Curve
	for _, s := range all {
		curve := chart.Curve{Label: labels[s]}
		for i, t := range c.taken {
			if v := t.median(s, metric); !math.IsNaN(v) {
				curve.Points = append(curve.Points, chart.Point{X: c.loads[i], Y: v * scale})
			}
		}
		drawn = append(drawn, curve)
	}
	return drawn
}

// draw adds a drawing to the report.
func (l *lab) draw(file, title, x, y string, drawn []chart.Curve) error {
	return l.drawn(file, chart.Chart{Title: title, X: x, Y: y, Curves: drawn})
}

func (l *lab) drawn(file string, c chart.Chart) error {
	file += ".svg"
	if err := chart.Write(filepath.Join(l.out, file), c); err != nil {
		return err
	}
	l.report.Plot(report.Plot{Title: c.Title, File: file})
	return nil
}
