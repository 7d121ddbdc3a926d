// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold/internal/machineclock"
)

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
			withinTerm(t, func(term time.Duration) bool {
				path := filepath.Join(t.TempDir(), "stamps")
				deadline := machineclock.Now().Add(term)
				r, err := launch(command(deadline, "sh", "-c", script, stamper, path))
				if errors.Is(err, ErrTooLate) {
					return false
				}
				if err != nil {
					t.Fatal(err)
				}
				end(t, r)
				await(t, r.Done())
				if !written(path) {
					return false
				}
				if last := lastStamp(t, path); last >= deadline {
					t.Errorf("wrote %v after the deadline", last.Sub(deadline))
				}
				return true
			})
		})
	}
}

func TestRun_ExtendMovesTheDeadline(t *testing.T) {
	withinTerm(t, func(term time.Duration) bool {
		var events []Event
		deadline := machineclock.Now().Add(term)
		c := sh(deadline, fmt.Sprintf("sleep %d; exit 3", int(term.Seconds())+1))
		c.Notify = func(e Event) { events = append(events, e) }
		r, err := launch(c)
		if errors.Is(err, ErrTooLate) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		end(t, r)
		r.Extend(machineclock.Now().Add(far))
		late := machineclock.Now() >= deadline.Add(-c.Margin-c.Grace)
		await(t, r.Done())
		if late {
			return false
		}
		if got := r.Result(); got != (Result{Code: 3}) || len(events) > 0 {
			t.Errorf("%+v, %v: an extended command was not left alone", got, events)
		}
		return true
	})
}

func TestRun_SIGTERMComesEarlyEnoughToCleanUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cleaned")
	c := command(machineclock.Now().Add(33*time.Second), "sh", "-c", `trap 'echo yes > "$1"; exit 9' TERM; while :; do sleep 0.01; done`, "sh", path)
	c.Grace = 30 * time.Second // time for a busy machine
	r := start(t, c)
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: 9}) {
		t.Errorf("%+v, want the exit code of the trap", got)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("the trap did not run")
	}
}

func TestRun_AStoppedCommandIsWokenToCleanUp(t *testing.T) {
	c := sh(machineclock.Now().Add(3*far), `trap 'exit 9' TERM; kill -STOP $$; while :; do sleep 0.01; done`)
	c.Grace = far
	r := start(t, c)
	for deadline := time.Now().Add(30 * time.Second); ; {
		if p, ok := readState(r.Pid()); ok && p == "T" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it does not stop")
		}
		time.Sleep(time.Millisecond)
	}
	r.Stop()
	await(t, r.Done())
	if got := r.Result(); got != (Result{Code: 9}) {
		t.Errorf("%+v, want the exit code of the trap", got)
	}
}

func TestRun_SignalReachesTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	r := start(t, command(machineclock.Now().Add(far), "sh", "-c",
		`trap 'wait; exit 5' USR1; for n in 1 2; do sh -c 'trap "echo > $1.got; exit" USR1; echo > $1; while :; do sleep 0.01; done' sh "$1/$n" & done; wait; wait; exit 1`, "sh", dir))
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

const daemonScript = `setsid sh -c '"$0" "$1" & exit' "$0" "$1"; while :; do sleep 1; done`

func TestRun_StoppedParentDoesNotKeepTheCommandAlive(t *testing.T) {
	withinTerm(t, func(term time.Duration) bool {
		path := filepath.Join(t.TempDir(), "stamps")
		p, _, _, _, deadline := parent(t, term, "sh", "-c", daemonScript, os.Args[0], path)
		if p == nil {
			return false
		}
		w, found := findWriter(t, path, deadline)
		if err := p.Process.Signal(syscall.SIGSTOP); err != nil || !found {
			return false
		}
		gone(t, w)
		if last := lastStamp(t, path); last >= deadline {
			t.Errorf("wrote %v after the deadline", last.Sub(deadline))
		}
		return true
	})
}

func TestRun_KilledParentTakesEverythingWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	p, _, pid, guardian, _ := parent(t, far, "sh", "-c", daemonScript, os.Args[0], path)
	fds := []int{writer(t, path), pidfd(t, pid), pidfd(t, guardian)}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	gone(t, fds...) // long before the deadline, which is an hour away
}

func TestRun_KilledGuardianTakesEverythingWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stamps")
	p, out, pid, guardian, _ := parent(t, far, "sh", "-c", daemonScript, os.Args[0], path)
	fds := []int{writer(t, path), pidfd(t, pid)}
	if err := syscall.Kill(guardian, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, fds...) // long before the deadline, which is an hour away
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
	if _, err := launch(command(machineclock.Now().Add(400*time.Millisecond), os.Args[0], path)); !errors.Is(err, ErrTooLate) {
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
