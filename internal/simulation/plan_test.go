// SPDX-License-Identifier: Apache-2.0

package simulation

import "testing"

func FuzzParse(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(New(seed).String())
	}
	f.Add("# nothing\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		written := p.String()
		back, err := Parse(written)
		if err != nil {
			t.Fatalf("written but not read: %v", err)
		}
		if back.String() != written {
			t.Fatalf("%q was written as %q and read as %q", text, written, back)
		}
	})
}

func TestNew_DrawsPlansThatCanBeReplayed(t *testing.T) {
	for seed := range uint64(500) {
		text := New(seed).String()
		if again := New(seed).String(); again != text {
			t.Fatalf("seed %d stands for two plans", seed)
		}
		back, err := Parse(text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if back.String() != text {
			t.Fatalf("seed %d: read as\n%s\nwant\n%s", seed, back, text)
		}
	}
}
