// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"go.uber.org/goleak"
)

// The test binary is its own worker.
const (
	workerArg   = "be-a-worker"
	deserterArg = "be-a-deserter"
)

func TestMain(m *testing.M) {
	switch os.Args[len(os.Args)-1] {
	case deserterArg:
		return
	case workerArg:
		if err := Worker(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func options(t *testing.T, out *screen) Options {
	t.Helper()
	self, err := offspring.Self()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Out: out, Screen: terminal.Screen{Width: 100}, SVG: filepath.Join(t.TempDir(), "picture.svg"),
		Program: self, Args: []string{workerArg},
	}
}

// screen collects what is printed and calls seen when it contains a text for the first time.
type screen struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	text string
	seen func()
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.buf.Write(b)
	if s.seen != nil && strings.Contains(s.buf.String(), s.text) {
		s.seen()
		s.seen = nil
	}
	return n, err
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

func TestRun_EverythingThatMustHoldHolds(t *testing.T) {
	out := new(screen)
	o := options(t, out)
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{
		"A token is the revision of etcd's store at which its holder got in line.",
		"The register stands for what the lock protects:",
		"stopped believing before",
		"session survived",
		"never two processes that believed at once",
		o.SVG,
		"Everything held that must hold.",
	}
	if canPause {
		want = append(want, "is stopped (SIGSTOP", "is refused by the fence", "first check says no", "take-over with a larger token")
	} else {
		want = append(want, "left out: this system has no SIGSTOP")
	}
	text := strings.Join(strings.Fields(out.String()), " ") // as if nothing had been wrapped
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in\n%s", w, out)
		}
	}
	if check, resumed := strings.Index(text, "checks token"), strings.Index(text, "is resumed (SIGCONT)"); canPause && check < resumed {
		t.Errorf("the resumed holder's check is told before its resumption:\n%s", out)
	}
	if strings.Contains(text, "FAILED") {
		t.Errorf("success in spite of a failure:\n%s", out)
	}
	if svg, err := os.ReadFile(o.SVG); err != nil || !bytes.Contains(svg, []byte("who believed what when")) && !bytes.Contains(svg, []byte("Who believed what when")) {
		t.Errorf("the picture: %v", err)
	}
}

var errStop = errors.New("stop")

func TestRun_InterruptedLeavesNothingBehind(t *testing.T) {
	if !canPause {
		t.Skipf("no SIGSTOP on %s, and a stopped worker is the point", runtime.GOOS)
	}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancelCause(t.Context())
	out := &screen{text: "is stopped (SIGSTOP", seen: func() { cancel(errStop) }}
	o := options(t, out)
	if err := Run(ctx, o); !errors.Is(err, errStop) {
		t.Fatalf("got %v, want the cause of the interruption\n%s", err, out)
	}
	// Run has waited for its children, so one that is left would be an unreaped one: Wait says so by its absence.
	if left, err := filepath.Glob(filepath.Join(tmp, "leaseholdtest-*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if _, err := os.Stat(o.SVG); err == nil {
		t.Error("a picture of half a story")
	}
}

func TestRun_AWorkerThatDiesIsAnErrorNotAWait(t *testing.T) {
	out := new(screen)
	o := options(t, out)
	o.Args = []string{deserterArg} // ends at once and knows nothing of the protocol
	err := Run(t.Context(), o)
	if err == nil || errors.Is(err, ErrUnexpected) || !strings.Contains(err.Error(), "worker ") {
		t.Errorf("got %v\n%s", err, out)
	}
}
