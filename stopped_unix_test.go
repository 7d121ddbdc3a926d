// SPDX-License-Identifier: Apache-2.0

//go:build unix

package leasehold_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold"
)

// A process that is stopped while it holds a lock, until another one has it, finds at its first check that it holds
// nothing: no timer of its own has run meanwhile.
func TestGrant_FirstCheckAfterTheProcessStoodStillSaysNo(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+sc.Member(0).Endpoint(), childPrefix+"="+sc.prefix)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(stdout); in.Scan(); {
			lines <- in.Text()
		}
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = stdin.Close() // the child ends with it
		for range lines {
		}
		_ = cmd.Wait()
	}()
	held := strings.Fields(await(t, "the child holds the lock", lines))
	if len(held) != 3 || held[0] != "held" || held[2] != "true" {
		t.Fatalf("the child says %q", held)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := mustLock(t, sc.newSession(time.Minute), "name") // the child's lease has run out
	time.Sleep(childTTL)                                    // a gap that the child will notice, from whenever it stood still
	token, err := leasehold.ParseToken(held[1])
	if err != nil || next.Token() <= token {
		t.Errorf("token %v after %q: %v", next.Token(), held[1], err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	woke := strings.Fields(await(t, "the child has woken", lines))
	if len(woke) != 3 || woke[0] != "woke" || woke[2] != "false" {
		t.Errorf("the child says %q, want its first check to fail", woke)
	}
	if !next.Valid() {
		t.Error("the successor lost its grant to the one that woke")
	}
}
