// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/machineclock"
	"golang.org/x/sys/unix"
)

// The test binary plays the other parts as well, chosen by this variable.
const role = "GUARD_TEST_ROLE"

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
	deadline := machineclock.Now().Add(time.Second)
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
		Margin: 150 * time.Millisecond, Grace: 200 * time.Millisecond,
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
	t.Cleanup(func() {
		r.Kill()
		<-r.Done()
		if left := descendants(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	return r
}

func sh(deadline machineclock.Instant, script string) timed {
	return command(deadline, "sh", "-c", script)
}

func await(t *testing.T, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("still not gone")
	}
}

// stamps waits for the stamper's first line.
func stamps(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			return
		}
	}
	t.Fatalf("nothing is written to %s", path)
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

func TestRun_PassesOnHowTheCommandEnded(t *testing.T) {
	for script, want := range map[string]Result{
		"exit 0":          {},
		"exit 7":          {Code: 7},
		"kill -TERM $$":   {Code: -1, Signal: 15},
		"kill -KILL $$":   {Code: -1, Signal: 9},
		"exec sh -c true": {},
	} {
		r := start(t, sh(machineclock.Now().Add(far), script))
		await(t, r.Done())
		if got := r.Result(); got != want {
			t.Errorf("%s: %+v, want %+v", script, got, want)
		}
	}
}

func TestStart_SaysWhyACommandCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"/does/not/exist": fs.ErrNotExist, plain: fs.ErrPermission} {
		_, err := launch(command(machineclock.Now().Add(far), path))
		if _, ok := errors.AsType[*StartError](err); !ok || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	if left := descendants(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestRun_CommandsThatTryToStayAreGoneBeforeTheDeadline(t *testing.T) {
	stamper := os.Args[0]
	for name, script := range map[string]string{
		"ignores SIGTERM":           `exec "$0" "$1"`,
		"nested shells":             `trap "" TERM; sh -c 'trap "" TERM; sh -c "trap \"\" TERM; \"$0\" \"$1\"; true" "$0" "$1"; true' "$0" "$1"; true`,
		"background child":          `trap "" TERM; "$0" "$1" & wait; wait`,
		"session of its own":        `trap "" TERM; setsid "$0" "$1" & wait; wait`,
		"daemon by double fork":     `trap "" TERM; (setsid sh -c '"$0" "$1" & exit 0' "$0" "$1" &); while :; do sleep 1; done`,
		"daemon, its parent exited": `(setsid "$0" "$1" &); until [ -s "$1" ]; do sleep 0.01; done; exit 0`,
		"stopped":                   `"$0" "$1" & until [ -s "$1" ]; do sleep 0.01; done; kill -STOP $!; trap "" TERM; wait; kill -STOP $$`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "stamps")
			deadline := machineclock.Now().Add(1200 * time.Millisecond)
			r := start(t, command(deadline, "sh", "-c", script, stamper, path))
			stamps(t, path)
			await(t, r.Done())
			if now := machineclock.Now(); now >= deadline {
				t.Errorf("gone %v after the deadline", now.Sub(deadline))
			}
			if last := lastStamp(t, path); last >= deadline {
				t.Errorf("wrote %v after the deadline", last.Sub(deadline))
			}
		})
	}
}

func TestRun_ExtendMovesTheDeadline(t *testing.T) {
	var events []Event
	c := sh(machineclock.Now().Add(500*time.Millisecond), "sleep 1.5; exit 3")
	c.Notify = func(e Event) { events = append(events, e) }
	r := start(t, c)
	r.Extend(machineclock.Now().Add(far))
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: 3}) || len(events) > 0 {
		t.Errorf("%+v, %v: an extended command was not left alone", got, events)
	}
}

func TestRun_SIGTERMComesEarlyEnoughToCleanUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cleaned")
	r := start(t, command(machineclock.Now().Add(time.Second), "sh", "-c", `trap 'echo yes > "$1"; exit 9' TERM; while :; do sleep 0.01; done`, "sh", path))
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: 9}) {
		t.Errorf("%+v, want the exit code of the trap", got)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the trap did not run")
	}
}

func TestRun_SignalReachesTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	r := start(t, command(machineclock.Now().Add(far), "sh", "-c",
		`for n in 1 2; do sh -c 'trap "echo > $1.got; exit" USR1; echo > $1; while :; do sleep 0.01; done' sh "$1/$n" & done; trap 'wait; exit 5' USR1; wait; wait; exit 1`, "sh", dir))
	stamps(t, dir+"/1")
	stamps(t, dir+"/2")
	r.Signal(syscall.SIGUSR1)
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: 5}) {
		t.Errorf("%+v", got)
	}
	stamps(t, dir+"/1.got")
	stamps(t, dir+"/2.got")
}

func TestRun_KillIsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	c := command(machineclock.Now().Add(3*far), os.Args[0], path)
	c.Grace = far
	r := start(t, c)
	stamps(t, path)
	r.Stop() // ignored, and its grace is an hour
	r.Kill()
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: -1, Signal: 9}) {
		t.Errorf("%+v", got)
	}
}

// parent runs playParent with the given command, and returns it with the pid of the command and of the guardian and the
// deadline.
func parent(t *testing.T, args ...string) (p *exec.Cmd, out *bufio.Reader, pid, guardian int, deadline machineclock.Instant) {
	t.Helper()
	p = exec.Command(os.Args[0], args...)
	p.Env = append(os.Environ(), role+"=parent")
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
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 30_000)
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
	stamps(t, path)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, link := range links {
			if target, err := os.Readlink(link); err == nil && target == path {
				pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
				return pidfd(t, pid)
			}
		}
	}
	t.Fatal("nobody has the file open")
	return 0
}

const daemonScript = `setsid sh -c '"$0" "$1" & exit' "$0" "$1"; while :; do sleep 1; done`

func TestRun_StoppedParentDoesNotKeepTheCommandAlive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	p, _, _, _, deadline := parent(t, "sh", "-c", daemonScript, os.Args[0], path)
	w := writer(t, path)
	if err := p.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	gone(t, w)
	if last := lastStamp(t, path); last >= deadline {
		t.Errorf("wrote %v after the deadline", last.Sub(deadline))
	}
}

func TestRun_KilledParentTakesEverythingWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	p, _, pid, guardian, deadline := parent(t, "sh", "-c", daemonScript, os.Args[0], path)
	fds := []int{writer(t, path), pidfd(t, pid), pidfd(t, guardian)}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, fds...)
	if now := machineclock.Now(); now >= deadline {
		t.Errorf("gone %v after the deadline", now.Sub(deadline))
	}
}

func TestRun_KilledGuardianTakesEverythingWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	p, out, pid, guardian, deadline := parent(t, "sh", "-c", daemonScript, os.Args[0], path)
	fds := []int{writer(t, path), pidfd(t, pid)}
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, fds...)
	if now := machineclock.Now(); now >= deadline {
		t.Errorf("gone %v after the deadline", now.Sub(deadline))
	}
	rest, _ := io.ReadAll(out)
	if want := fmt.Sprintln(Result{Unknown: true}); string(rest) != want {
		t.Errorf("the parent said %q, want %q", rest, want)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStart_RefusesWhatWouldHaveToStopAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	if _, err := launch(command(machineclock.Now().Add(300*time.Millisecond), os.Args[0], path)); !errors.Is(err, ErrTooLate) {
		t.Errorf("got %v, want ErrTooLate", err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it ran")
	}
}

func TestPrepare_KillInPlaceOfStartLeavesNothing(t *testing.T) {
	r, err := Prepare(command(0, "true").Command)
	if err != nil {
		t.Fatal(err)
	}
	r.Kill()
	await(t, r.Done())
	if left := descendants(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func TestGuardian_NobodyElseCanStartIt(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=guardian")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "by leasehold itself only") {
		t.Errorf("%v, %q", err, out)
	}
}
