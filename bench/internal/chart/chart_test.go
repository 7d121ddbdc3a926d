// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite_LabelsWhatItDraws(t *testing.T) {
	for _, linear := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "chart.svg")
		err := Write(file, Chart{Title: "A title", X: "load", Y: "cost", Linear: linear, Curves: []Curve{
			{"ours", []Point{{1, 3}, {16, 40}, {256, 1000}}},
			{"empty", nil},
			{"theirs", []Point{{1, 5}, {256, 8000}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"<svg", "A title", "load", "cost", "ours", "theirs", ">1<", ">16<", ">256<"} {
			if !strings.Contains(string(text), want) {
				t.Errorf("linear %v: no %q in the drawing", linear, want)
			}
		}
		if strings.Contains(string(text), "empty") {
			t.Errorf("linear %v: a curve without points is drawn", linear)
		}
	}
}

func TestWrite_RefusesWhatHasNoPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chart.svg")
	if err := Write(file, Chart{Curves: []Curve{{"ours", []Point{{0, 1}}}}}); err == nil {
		t.Error("zero on a logarithmic axis is accepted")
	}
	if err := Write(file, Chart{}); err == nil {
		t.Error("a chart of nothing is accepted")
	}
}
