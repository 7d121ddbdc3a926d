// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/leasehold/internal/machineclock"
)

func TestRun_APictureThatCannotBeWrittenIsSaidBeforeAnythingElse(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "no", "such", "x.svg"), dir} {
		out := new(screen)
		o := options(t, out)
		o.SVG = path
		if err := Run(t.Context(), o); !errors.Is(err, ErrPicture) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v", path, err)
		}
		if out.String() != "" {
			t.Errorf("%s: the demo has begun:\n%s", path, out)
		}
	}
}

func TestConclude_AFailureToSaveDoesNotHideTheVerdict(t *testing.T) {
	for _, tt := range []struct {
		failed []string
		want   string
		is     error
	}{
		{nil, "Everything held that must hold.", os.ErrClosed},
		{[]string{"the sky"}, "1 of the things that must hold did not:\n  the sky\n", ErrUnexpected},
	} {
		file, err := openPicture(filepath.Join(t.TempDir(), "x.svg"))
		if err != nil {
			t.Fatal(err)
		}
		file.f.Close() // as a full disk would do
		out := new(screen)
		s := &story{narrator: &narrator{out: out, failed: tt.failed}}
		err = s.conclude(options(t, out), file, machineclock.Now())
		if !errors.Is(err, tt.is) || !strings.Contains(out.String(), tt.want) {
			t.Errorf("got %v, printed\n%s", err, out)
		}
	}
}

func TestPicture_LeavesWhatItHasNotMade(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.svg")
	if err := os.WriteFile(old, []byte("a longer text than the next one"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{old, filepath.Join(dir, "new.svg")} {
		p, err := openPicture(path)
		if err != nil {
			t.Fatal(err)
		}
		p.discard()
	}
	if text, err := os.ReadFile(old); err != nil || !strings.HasPrefix(string(text), "a longer") {
		t.Errorf("what was there before: %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.svg")); err == nil {
		t.Error("an empty picture is left")
	}
	p, err := openPicture(old)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.save([]byte("new")); err != nil {
		t.Fatal(err)
	}
	p.discard()
	if text, err := os.ReadFile(old); err != nil || string(text) != "new" {
		t.Errorf("it holds %q, %v", text, err)
	}
}
