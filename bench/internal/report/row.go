// SPDX-License-Identifier: Apache-2.0

// Package report holds what a run of the benchmark has found: rows of figures with the bars they are held to, and the
// facts of the machine, written as Markdown and JSON.
package report

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Figure is a measured value in its unit's base (seconds, bytes, ...); nil: not measured, because it makes no sense there.
type Figure *float64

// Of returns the figure of a value; nil for NaN, which stands for no values.
func Of(v float64) Figure {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

// Unit is what a figure counts, in its base.
type Unit string

// The units. What has none is a count.
const (
	Seconds   Unit = "s"
	PerSecond Unit = "/s"
	Bytes     Unit = "B"
	Count     Unit = ""
	Trips     Unit = "RTT" // round trips
	Cores     Unit = "cores"
)

// Against is what a bar compares with.
type Against string

// What bars compare with.
const (
	Absolute Against = ""
	Theirs   Against = "theirs"
	Floor    Against = "floor"
)

// Bar is what our figure has to reach: at least or at most a value, or a multiple of theirs or of the floor. The zero
// Bar asks for nothing.
type Bar struct {
	Rule    Rule    `json:"rule,omitempty"`
	Value   float64 `json:"value"`
	Against Against `json:"against,omitempty"`
}

// Rule is the side of a bar on which our figure has to be. The bar itself is on it.
type Rule string

// The rules.
const (
	Least Rule = "≥"
	Most  Rule = "≤"
)

// AtLeast makes a bar that our figure must not stay below.
func AtLeast(v float64, of Against) Bar { return Bar{Least, v, of} }

// AtMost makes a bar that our figure must not exceed.
func AtMost(v float64, of Against) Bar { return Bar{Most, v, of} }

func (b Bar) met(v float64) bool {
	if b.Rule == Least {
		return v >= b.Value
	}
	return v <= b.Value
}

func (b Bar) text(unit Unit) string {
	if b.Rule == "" {
		return ""
	}
	if b.Against == Absolute {
		return fmt.Sprintf("%s %s", b.Rule, format(b.Value, unit))
	}
	return fmt.Sprintf("%s %s × %s", b.Rule, strconv.FormatFloat(b.Value, 'g', 3, 64), b.Against)
}

// Verdict is whether a bar is met.
type Verdict string

// The verdicts. A row without a bar has none.
const (
	Met    Verdict = "met"
	NotMet Verdict = "not met"
	None   Verdict = ""
)

// Row is one line of the table.
type Row struct {
	Axis   string  `json:"axis"`
	Case   string  `json:"case"`
	Metric string  `json:"metric"`
	Unit   Unit    `json:"unit"`
	Ours   Figure  `json:"ours"`
	Theirs Figure  `json:"theirs"`
	Floor  Figure  `json:"floor"`
	Ratio  Figure  `json:"ratio"` // ours to what the bar compares with, or to theirs
	Bar    Bar     `json:"bar"`
	Result Verdict `json:"result"`

	// Rounds are the figures of each round by subject, in the order in which they were taken.
	Rounds map[string][]float64 `json:"rounds,omitempty"`
}

// judged fills in the ratio and the result.
func (r Row) judged() Row {
	base := r.Theirs
	if r.Bar.Against == Floor || base == nil && r.Bar.Against == Absolute {
		base = r.Floor
	}
	r.Ratio = nil
	if r.Ours != nil && base != nil && *base != 0 {
		r.Ratio = Of(*r.Ours / *base)
	}
	r.Result = None
	if r.Bar.Rule == "" {
		return r
	}
	v := r.Ratio
	if r.Bar.Against == Absolute {
		v = r.Ours
	}
	r.Result = NotMet // also if it could not be compared
	if v != nil && r.Bar.met(*v) {
		r.Result = Met
	}
	return r
}

// format writes a value for people: three digits and the fitting prefix.
func format(v float64, unit Unit) string {
	switch unit {
	case Seconds:
		return seconds(v)
	case Bytes:
		return scaled(v, 1024, []string{" B", " KiB", " MiB", " GiB"})
	case PerSecond:
		return digits(v) + "/s"
	case Count:
		return digits(v)
	default:
		return digits(v) + " " + string(unit)
	}
}

func seconds(v float64) string {
	switch d := math.Abs(v); {
	case d == 0:
		return "0"
	case d < float64(time.Microsecond)/1e9:
		return digits(v*1e9) + " ns"
	case d < 1e-3:
		return digits(v*1e6) + " µs"
	case d < 1:
		return digits(v*1e3) + " ms"
	default:
		return digits(v) + " s"
	}
}

func scaled(v, step float64, prefixes []string) string {
	i := 0
	for ; math.Abs(v) >= step && i < len(prefixes)-1; i++ {
		v /= step
	}
	return digits(v) + prefixes[i]
}

// digits writes three significant digits, and all of those before the point.
func digits(v float64) string {
	if math.Abs(v) >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
