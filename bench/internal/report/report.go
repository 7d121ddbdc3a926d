// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Fact is something about the machine or the run that the figures depend on.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Report is what a run has found so far. It is safe for concurrent use.
type Report struct {
	mu    sync.Mutex
	facts []Fact
	rows  []Row
	plots []Plot
}

// Plot is a drawing that belongs to the report.
type Plot struct {
	Title string `json:"title"`
	File  string `json:"file"` // relative to the report
}

// Fact adds a fact.
func (r *Report) Fact(name, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts = append(r.facts, Fact{name, value})
}

// Add adds a row, judges it, and returns it judged.
func (r *Report) Add(row Row) Row {
	row = row.judged()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
	return row
}

// Plot adds a drawing.
func (r *Report) Plot(p Plot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plots = append(r.plots, p)
}

// Missed returns the rows whose bar is not met.
func (r *Report) Missed() []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missed []Row
	for _, row := range r.rows {
		if row.Result == NotMet {
			missed = append(missed, row)
		}
	}
	return missed
}

// JSON writes the report with all figures in base units and those of every round.
func (r *Report) JSON(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Facts []Fact `json:"facts"`
		Rows  []Row  `json:"rows"`
		Plots []Plot `json:"plots"`
	}{r.facts, r.rows, r.plots})
}

const columns = "| case | metric | Leasehold | concurrency | bare etcd | ratio | bar | result |\n|---|---|--:|--:|--:|--:|---|---|\n"

// Markdown writes the report as one table for each axis, after the facts.
func (r *Report) Markdown(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	b.WriteString("# Results\n\n| | |\n|---|---|\n")
	for _, f := range r.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f.Name, f.Value)
	}
	axis := ""
	for _, row := range r.rows {
		if row.Axis != axis {
			axis = row.Axis
			fmt.Fprintf(&b, "\n## %s\n\n%s", axis, columns)
		}
		b.WriteString(row.Markdown())
	}
	if len(r.plots) > 0 {
		b.WriteString("\n## Plots\n")
	}
	for _, p := range r.plots {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.Title, p.File)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown is the row as a line of a table. A missed bar is in bold.
func (r Row) Markdown() string {
	cell := func(f Figure, unit Unit) string {
		if f == nil {
			return ""
		}
		return format(*f, unit)
	}
	result := string(r.Result)
	if r.Result == NotMet {
		result = "**" + result + "**"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.Case, r.Metric,
		cell(r.Ours, r.Unit), cell(r.Theirs, r.Unit), cell(r.Floor, r.Unit), cell(r.Ratio, Count), r.Bar.text(r.Unit), result)
}
