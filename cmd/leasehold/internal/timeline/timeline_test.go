// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestText_NoLineIsWiderThanTheTerminal(t *testing.T) {
	for _, width := range []int{40, 41, 60, 80, 100, 200} {
		for line := range strings.SplitSeq(sample().Text(Style{Width: width}), "\n") {
			if n := utf8.RuneCountInString(line); n > width {
				t.Errorf("width %d: %d columns: %q", width, n, line)
			}
		}
	}
}

func TestText_WithoutColourSaysTheSame(t *testing.T) {
	plain := sample().Text(Style{Width: 90})
	if strings.ContainsRune(plain, '\x1b') {
		t.Error("an escape sequence without colour")
	}
	coloured := sample().Text(Style{Width: 90, Colour: true})
	var stripped strings.Builder
	for i, part := range strings.Split(coloured, "\x1b[") {
		if i > 0 {
			_, part, _ = strings.Cut(part, "m")
		}
		stripped.WriteString(part)
	}
	if stripped.String() != plain {
		t.Errorf("colour changes more than colour:\n%s\n%s", stripped.String(), plain)
	}
}

func TestText_ASCIIStaysASCII(t *testing.T) {
	for _, r := range sample().Text(Style{Width: 90, ASCII: true}) {
		if r > 0x7e {
			t.Fatalf("%q in a locale without UTF-8", r)
		}
	}
}

func TestText_AStoppedHolderLooksDifferentBeforeAndAfterItsExpiry(t *testing.T) {
	var beta string
	for line := range strings.Lines(sample().Text(Style{Width: 100})) {
		if strings.HasPrefix(line, "beta") {
			beta = line
			break
		}
	}
	held, running, over := strings.IndexRune(beta, '█'), strings.IndexRune(beta, '▓'), strings.IndexRune(beta, '░')
	if held < 0 || running < held || over < running {
		t.Errorf("want held, stopped in term, stopped after it, in this order: %q", beta)
	}
}

func TestText_EventsAreLetteredInOrderOfTime(t *testing.T) {
	text := sample().Text(Style{Width: 100})
	last := -1
	for i, e := range sample().letters() {
		at := strings.Index(text, "\n"+string('A'+rune(i))+" ")
		if at < last || !strings.Contains(text[at:], e.Text) {
			t.Errorf("%c at %d, after %d", 'A'+i, at, last)
		}
		last = at
	}
}

func TestSVG_IsWellFormedAndRefersToNothingOutside(t *testing.T) {
	out := sample().SVG()
	d := xml.NewDecoder(bytes.NewReader(out))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text := string(out)
	for _, bad := range []string{"<script", "href", "%!", "<it>"} {
		if strings.Contains(text, bad) {
			t.Errorf("contains %q", bad)
		}
	}
	for _, want := range []string{"token 4", "token 5", "token 6", "write refused", "SIGCONT", ">J</text>"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestSVG_NoLineIsDrawnOverALabel(t *testing.T) {
	text := string(sample().SVG())
	label := strings.Index(text, `paint-order="stroke"`)
	line := strings.LastIndex(text, `stroke-dasharray="1 3"`) // an event's
	if label < 0 || line < 0 || label < line {
		t.Errorf("the first label is at %d, the last line of an event at %d", label, line)
	}
}

func TestPicture_AnEmptyOneIsDrawn(t *testing.T) {
	if out := (Picture{}).Text(Style{}); out == "" {
		t.Error("no text")
	}
	if out := (Picture{}).SVG(); len(out) == 0 {
		t.Error("no file")
	}
}

func TestPicture_AxisHasFewAndRoundMarks(t *testing.T) {
	for _, length := range []time.Duration{0, time.Millisecond, time.Second, 7 * time.Second, 40 * time.Second, time.Hour} {
		step := Picture{Length: length}.step(16)
		if n := length / step; n > 16 {
			t.Errorf("%v: %d marks", length, n)
		}
	}
	if got := (Picture{Length: 16 * time.Second}).step(16); got != time.Second {
		t.Errorf("16 s over 16 marks: a mark every %v", got)
	}
	if got := (Picture{Length: 17 * time.Second}).step(16); got != 2*time.Second {
		t.Errorf("17 s over 16 marks: a mark every %v", got)
	}
}
