// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestRow_IsHeldToItsBar(t *testing.T) {
	for _, tc := range []struct {
		name                string
		ours, theirs, floor float64
		bar                 Bar
		ratio               float64
		result              Verdict
	}{
		{"no bar", 2, 4, math.NaN(), Bar{}, 0.5, None},
		{"at least, met", 12, 4, 1, AtLeast(3, Theirs), 3, Met},
		{"at least, missed", 11, 4, 1, AtLeast(3, Theirs), 2.75, NotMet},
		{"at most, met", 2, 4, 1, AtMost(0.5, Theirs), 0.5, Met},
		{"at most, missed", 3, 4, 1, AtMost(0.5, Theirs), 0.75, NotMet},
		{"of the floor", 3, 100, 2, AtMost(1.05, Floor), 1.5, NotMet},
		{"absolute", 3, 6, math.NaN(), AtMost(3, Absolute), 0.5, Met},
		{"absolute zero", 0, 6, math.NaN(), AtMost(0, Absolute), 0, Met},
		{"absolute zero, missed", 1, 0, math.NaN(), AtMost(0, Absolute), math.NaN(), NotMet},
		{"nothing to compare with", 3, math.NaN(), math.NaN(), AtMost(1, Theirs), math.NaN(), NotMet},
		{"nothing of ours", math.NaN(), 3, math.NaN(), AtMost(1, Absolute), math.NaN(), NotMet},
	} {
		got := Row{Ours: Of(tc.ours), Theirs: Of(tc.theirs), Floor: Of(tc.floor), Bar: tc.bar}.judged()
		if got.Result != tc.result {
			t.Errorf("%s: got %q, want %q", tc.name, got.Result, tc.result)
		}
		if (got.Ratio == nil) != math.IsNaN(tc.ratio) || got.Ratio != nil && *got.Ratio != tc.ratio {
			t.Errorf("%s: the ratio is %v, want %v", tc.name, got.Ratio, tc.ratio)
		}
	}
}

func TestFigures_AreWrittenForPeople(t *testing.T) {
	for _, tc := range []struct {
		value float64
		unit  Unit
		want  string
	}{
		{0, Seconds, "0"},
		{42e-9, Seconds, "42 ns"},
		{1.2345e-6, Seconds, "1.23 µs"},
		{0.0123, Seconds, "12.3 ms"},
		{0.1234, Seconds, "123 ms"},
		{5.06, Seconds, "5.06 s"},
		{12345.6, PerSecond, "12346/s"},
		{800, Bytes, "800 B"},
		{2048, Bytes, "2 KiB"},
		{0.5, Count, "0.5"},
		{10000, Count, "10000"},
		{3.7, Trips, "3.7 RTT"},
	} {
		if got := format(tc.value, tc.unit); got != tc.want {
			t.Errorf("%v %s: got %q, want %q", tc.value, tc.unit, got, tc.want)
		}
	}
}

func TestReport_WritesOneTableForEachAxis(t *testing.T) {
	var r Report
	r.Fact("machine", "a small one")
	r.Add(Row{Axis: "A", Case: "one", Metric: "time", Unit: Seconds, Ours: Of(0.001), Theirs: Of(0.002), Bar: AtMost(0.4, Theirs)})
	r.Add(Row{Axis: "A", Case: "two", Metric: "locks", Unit: PerSecond, Ours: Of(10), Floor: Of(20), Bar: AtLeast(5, Absolute)})
	r.Add(Row{Axis: "B", Case: "one", Metric: "locks", Ours: Of(1)})
	r.Plot(Plot{Title: "a curve", File: "curve.svg"})
	var text strings.Builder
	if err := r.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| machine | a small one |\n",
		"## A\n\n" + columns + "| one | time | 1 ms | 2 ms |  | 0.5 | ≤ 0.4 × theirs | **not met** |\n| two | locks | 10/s |  | 20/s | 0.5 | ≥ 5/s | met |\n",
		"## B\n\n" + columns + "| one | locks | 1 |  |  |  |  |  |\n",
		"![a curve](curve.svg)\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if missed := r.Missed(); len(missed) != 1 || missed[0].Case != "one" {
		t.Errorf("missed: %v, want the first row", missed)
	}
	text.Reset()
	if err := r.JSON(&text); err != nil {
		t.Fatal(err)
	}
	var back struct{ Rows []Row }
	if err := json.Unmarshal([]byte(text.String()), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Rows) != 3 || back.Rows[0].Result != NotMet || *back.Rows[0].Ours != 0.001 || back.Rows[2].Theirs != nil {
		t.Errorf("read back as %+v", back.Rows)
	}
}
