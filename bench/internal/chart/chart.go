// SPDX-License-Identifier: Apache-2.0

// Package chart draws curves.
package chart

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart is a drawing.
type Chart struct {
	Title, X, Y string // the labels
	Curves      []Curve
	Linear      bool // both axes, from zero; otherwise both are logarithmic
}

// Curve is one line of a chart. Its place among the curves decides its colour. Curves without points are not drawn.
type Curve struct {
	Label  string
	Points []Point
}

// Point is a point of a curve. On logarithmic axes both coordinates must be above zero.
type Point struct{ X, Y float64 }

// styles tell the curves apart, also without colours.
var styles = []struct {
	colour color.RGBA
	glyph  draw.GlyphDrawer
	dashes []vg.Length
}{
	{color.RGBA{R: 0x1f, G: 0x5f, B: 0xbf, A: 0xff}, draw.CircleGlyph{}, nil},
	{color.RGBA{R: 0xd0, G: 0x4a, B: 0x1a, A: 0xff}, draw.BoxGlyph{}, nil},
	{color.RGBA{R: 0x60, G: 0x60, B: 0x60, A: 0xff}, draw.TriangleGlyph{}, []vg.Length{vg.Points(4), vg.Points(3)}},
}

// Write draws a chart into an SVG file.
func Write(file string, c Chart) error {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Title.Padding = vg.Points(6)
	for _, style := range []*draw.TextStyle{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{Y: 0xdd}, color.Gray{Y: 0xdd}
	p.Add(grid)
	var marks []float64
	lowest, highest := math.Inf(1), 0.0
	first, last := math.Inf(1), 0.0
	for i, curve := range c.Curves {
		if len(curve.Points) == 0 {
			continue
		}
		var points plotter.XYs
		for _, pt := range curve.Points {
			if !c.Linear && (pt.X <= 0 || pt.Y <= 0) {
				return fmt.Errorf("draw %s: %q has a point at (%g, %g), which has no place on a logarithmic axis", file, curve.Label, pt.X, pt.Y)
			}
			points = append(points, plotter.XY(pt))
			if !slices.Contains(marks, pt.X) {
				marks = append(marks, pt.X)
			}
			first, last = min(first, pt.X), max(last, pt.X)
			lowest, highest = min(lowest, pt.Y), max(highest, pt.Y)
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return fmt.Errorf("draw %s: %w", file, err)
		}
		style := styles[i%len(styles)]
		line.Color, line.Width, line.Dashes = style.colour, vg.Points(1.5), style.dashes
		dots.Color, dots.Shape, dots.Radius = style.colour, style.glyph, vg.Points(3)
		p.Add(line, dots)
		p.Legend.Add(curve.Label, line, dots)
	}
	if len(marks) == 0 {
		return fmt.Errorf("draw %s: no points", file)
	}
	p.X.Tick.Marker = ticks(marks)
	// Room for the legend above the curves, and for the label of the last mark.
	if c.Linear {
		p.X.Min, p.X.Max = 0, last*1.05
		p.Y.Min, p.Y.Max = 0, highest*1.35
	} else {
		p.X.Scale, p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogScale{}, steps{}
		p.X.Min, p.X.Max = first/1.05, last*1.2
		p.Y.Min, p.Y.Max = lowest/1.5, highest*math.Pow(highest/lowest, 0.25)*1.5
	}
	if err := p.Save(vg.Points(480), vg.Points(320), file); err != nil {
		return fmt.Errorf("draw %s: %w", file, err)
	}
	return nil
}

// ticks marks the measured loads and nothing else.
type ticks []float64

func (t ticks) Ticks(least, most float64) []plot.Tick {
	var marks []plot.Tick
	for _, v := range t {
		if v >= least && v <= most {
			marks = append(marks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
		}
	}
	return marks
}

// steps marks 1, 2 and 5 of each decade.
type steps struct{}

func (steps) Ticks(least, most float64) []plot.Tick {
	var marks []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Log10(most); e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= least && v <= most {
				marks = append(marks, plot.Tick{Value: v, Label: label(v)})
			}
		}
	}
	return marks
}

// label writes thousands as k and millions as M.
func label(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 3, 64) + "k"
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
