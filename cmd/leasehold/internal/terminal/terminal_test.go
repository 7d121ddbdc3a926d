// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"os"
	"path/filepath"
	"testing"
)

func file(t *testing.T) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOf_AFileIsNotColouredUnlessAsked(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	for colour, want := range map[Colour]bool{Auto: false, Never: false, Always: true} {
		if s := Of(file(t), colour); s.Colour != want || s.Terminal {
			t.Errorf("%s: %+v", colour, s)
		}
	}
}

func TestOf_SizeFromTheEnvironment(t *testing.T) {
	t.Setenv("COLUMNS", "132")
	t.Setenv("LINES", "0")
	if s := Of(file(t), Auto); s.Width != 132 || s.Height != 24 {
		t.Errorf("%+v", s)
	}
}

func TestOf_LocaleDecidesAboutASCII(t *testing.T) {
	for _, tt := range []struct {
		all, ctype, lang string
		ascii            bool
	}{
		{"", "", "", false},
		{"", "", "C", true},
		{"", "", "en_GB.UTF-8", false},
		{"C.utf8", "", "C", false},
		{"", "POSIX", "en_GB.UTF-8", true},
	} {
		t.Setenv("LC_ALL", tt.all)
		t.Setenv("LC_CTYPE", tt.ctype)
		t.Setenv("LANG", tt.lang)
		if got := Of(file(t), Auto).ASCII; got != tt.ascii {
			t.Errorf("%+v: ASCII %v", tt, got)
		}
	}
}

func TestParseColour_RefusesOtherWords(t *testing.T) {
	if c, err := ParseColour(""); c != Auto || err != nil {
		t.Errorf("empty: %q, %v", c, err)
	}
	if _, err := ParseColour("sometimes"); err == nil {
		t.Error("accepted")
	}
}
