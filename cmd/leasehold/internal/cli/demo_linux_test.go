// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// marked counts the processes that have the mark in their environment.
func marked(mark string) int {
	n := 0
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err == nil && strings.Contains(string(env), mark) {
			n++
		}
	}
	return n
}

// TestDemo_KilledOrInterruptedLeavesNothingRunning ends the demo while one of its workers is stopped.
func TestDemo_KilledOrInterruptedLeavesNothingRunning(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGINT, syscall.SIGTERM} {
		t.Run(sig.String(), func(t *testing.T) {
			tmp := t.TempDir()
			mark := "LEASEHOLD_TEST_MARK=" + tmp
			out := filepath.Join(tmp, "out")
			f, err := os.Create(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			p := command(t, "demo", "--svg", filepath.Join(tmp, "picture.svg"))
			p.Env = append(p.Env, mark, "TMPDIR="+tmp)
			p.Stdout = f
			p.start(t)
			eventually(t, "a worker is stopped", func() bool {
				text, err := os.ReadFile(out)
				return err == nil && strings.Contains(string(text), "is stopped (SIGSTOP")
			})
			eventually(t, "the demo and three workers run", func() bool { return marked(mark) == 4 })
			if err := p.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			code := p.code()
			if sig != syscall.SIGKILL && code != 128+int(sig) {
				t.Errorf("exit code %d (%s)", code, &p.err)
			}
			eventually(t, "all workers are gone", func() bool { return marked(mark) == 0 })
			if left, _ := filepath.Glob(tmp + "/leaseholdtest-*"); sig != syscall.SIGKILL && len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
		})
	}
}
