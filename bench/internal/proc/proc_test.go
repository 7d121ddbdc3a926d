// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	played, err := Run(context.Background(), map[string]Role{"adder": adder})
	if !played {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// sum adds what it is told, and on its end writes the file that it was given.
type sum struct {
	total int
	file  string
}

func adder(_ context.Context, args json.RawMessage) (Part, error) {
	s := &sum{}
	if err := json.Unmarshal(args, &s.file); err != nil {
		return nil, err
	}
	if s.file == "" {
		return nil, errors.New("no file")
	}
	return s, nil
}

func (s *sum) Answer(_ context.Context, verb string, args json.RawMessage) (any, error) {
	if verb != "add" {
		return nil, errors.New("only add")
	}
	var n int
	err := json.Unmarshal(args, &n)
	s.total += n
	return s.total, err
}

func (s *sum) Close() error { return os.WriteFile(s.file, fmt.Append(nil, s.total), 0o600) }

func TestProcess_AnswersAndEndsWithItsInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "total")
	p, err := Start("adder", file)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	for i, want := range []int{1, 3, 6} {
		var got int
		if err := p.Ask("add", i+1, &got); err != nil || got != want {
			t.Fatalf("got %d, %v, want %d", got, err, want)
		}
	}
	if err := p.Ask("subtract", 1, nil); err == nil {
		t.Error("an error of the part does not arrive")
	}
	u, err := p.Usage()
	if err != nil || u.Goroutines < 1 || u.Resident < 1<<16 || u.Live < 1<<10 {
		t.Errorf("used %+v, %v", u, err)
	}
	p.Stop(time.Minute)
	if text, err := os.ReadFile(file); err != nil || string(text) != "6" {
		t.Errorf("the part closed with %q, %v, want 6", text, err)
	}
	if err := p.Ask("add", 1, nil); err == nil {
		t.Error("a process that has ended answers")
	}
}

func TestProcess_KilledDoesNotClose(t *testing.T) {
	file := filepath.Join(t.TempDir(), "total")
	p, err := Start("adder", file)
	if err != nil {
		t.Fatal(err)
	}
	p.Kill()
	p.Kill() // again changes nothing
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a killed process has closed its part: %v", err)
	}
}

func TestStart_TellsWhyARoleFails(t *testing.T) {
	if _, err := Start("adder", ""); err == nil || !strings.Contains(err.Error(), "no file") {
		t.Errorf("a role that fails: %v, want its reason", err)
	}
	if _, err := Start("nobody", ""); err == nil {
		t.Error("a role that does not exist is started")
	}
}
