// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold/internal/machineclock"
	"golang.org/x/sys/unix"
)

// The test binary plays the other parts as well, chosen by this variable.
const (
	role         = "GUARD_TEST_ROLE"
	termVariable = "GUARD_TEST_TERM" // of the parent: how far away its deadline is
)

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "guardian":
		if err := Guardian(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case "parent":
		playParent()
	case "stamper":
		playStamper(os.Args[1])
	default:
		os.Exit(m.Run())
	}
}

// playStamper ignores every gentle signal and appends the time to a file without end.
func playStamper(path string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(1)
	}
	for {
		fmt.Fprintln(f, machineclock.Now())
	}
}

// playParent guards the command in its arguments, prints its pid, the guardian's and the deadline, and waits.
func playParent() {
	term, err := time.ParseDuration(os.Getenv(termVariable))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	deadline := machineclock.Now().Add(term)
	r, err := launch(command(deadline, os.Args[1:]...))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.Pid(), r.guardian.Pid(), deadline)
	fmt.Println(r.Result())
}

// timed is a command and its deadline.
type timed struct {
	Command
	deadline machineclock.Instant
}

// launch prepares and starts.
func launch(c timed) (*Run, error) {
	r, err := Prepare(c.Command)
	if err != nil {
		return nil, err
	}
	return r, r.Start(c.deadline)
}

// command makes one that is guarded by this test binary.
func command(deadline machineclock.Instant, args ...string) timed {
	path, err := exec.LookPath(args[0])
	if err != nil {
		path = args[0]
	}
	return timed{deadline: deadline, Command: Command{
		Path: path, Args: args, Env: append(os.Environ(), role+"=stamper"),
		Margin: 300 * time.Millisecond, Grace: 200 * time.Millisecond,
		// The race detector sleeps for a second before a process exits, unless told not to.
		Guardian: []string{"/usr/bin/env", role + "=guardian", "GORACE=atexit_sleep_ms=0", os.Args[0]},
	}}
}

const far = time.Hour

func start(t *testing.T, c timed) *Run {
	t.Helper()
	r, err := launch(c)
	if err != nil {
		t.Fatal(err)
	}
	end(t, r)
	return r
}

// end ends r with the test if it still runs then.
func end(t *testing.T, r *Run) {
	t.Cleanup(func() {
		r.Kill()
		<-r.Done()
		if left := descendants(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
}

// withinTerm runs try with a term in which a command starts and does what it should even on this machine: twice as long each
// time that try reports that it was too short.
func withinTerm(t *testing.T, try func(term time.Duration) bool) {
	t.Helper()
	for term := 3 * time.Second; term < 2*time.Minute; term *= 2 {
		if try(term) {
			return
		}
		t.Logf("%v was too short", term)
	}
	t.Error("no command has come so far")
}

func sh(deadline machineclock.Instant, script string) timed {
	return command(deadline, "sh", "-c", script)
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("still not gone")
	}
}

// patience bounds what is bound to happen: far more than any machine needs.
const patience = 3 * time.Minute

// stamps waits for the stamper's first line.
func stamps(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if written(path) {
			return
		}
	}
	t.Fatalf("nothing is written to %s", path)
}

func written(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Size() > 0
}

// lastStamp returns the last whole line's instant.
func lastStamp(t *testing.T, path string) machineclock.Instant {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if n, err := strconv.ParseInt(lines[i], 10, 64); err == nil && n > 0 {
			return machineclock.Instant(n)
		}
	}
	t.Fatalf("no stamp in %s", path)
	return 0
}

// parent runs playParent with the given term and command, and returns it with the pid of the command and of the guardian and the
// deadline. p is nil if the term was too short to start the command.
func parent(t *testing.T, term time.Duration, args ...string) (p *exec.Cmd, out *bufio.Reader, pid, guardian int, deadline machineclock.Instant) {
	t.Helper()
	p = exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), role+"=parent", termVariable+"="+term.String())
	p.Stderr = os.Stderr
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		reapOrphans(0) // earlier tests have made this process the reaper
	})
	out = bufio.NewReader(pipe)
	line, _ := out.ReadString('\n')
	if strings.Contains(line, ErrTooLate.Error()) {
		return nil, nil, 0, 0, 0
	}
	if _, err := fmt.Sscan(line, &pid, &guardian, &deadline); err != nil {
		t.Fatalf("the parent said %q", line)
	}
	return p, out, pid, guardian, deadline
}

// gone waits until the processes of the pidfds have ended.
func gone(t *testing.T, fds ...int) {
	t.Helper()
	for _, fd := range fds {
		n, err := 0, error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
		}
		if n != 1 || err != nil {
			t.Fatalf("still alive (%v)", err)
		}
	}
}

func pidfd(t *testing.T, pid int) int {
	t.Helper()
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// writer waits for the stamper below any shells to write, and returns its pidfd, found by its open file.
func writer(t *testing.T, path string) int {
	t.Helper()
	fd, found := findWriter(t, path, machineclock.Now().Add(patience))
	if !found {
		t.Fatalf("nobody has %s open", path)
	}
	return fd
}

// findWriter is writer until a deadline.
func findWriter(t *testing.T, path string, deadline machineclock.Instant) (fd int, found bool) {
	t.Helper()
	for machineclock.Now() < deadline {
		links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == path && written(path) {
				pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
				if fd, err := unix.PidfdOpen(pid, 0); err == nil {
					t.Cleanup(func() { unix.Close(fd) })
					return fd, true
				}
			}
		}
	}
	return 0, false
}

// readState returns the letter of the process's state.
func readState(pid int) (string, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	return fields[0], true
}
