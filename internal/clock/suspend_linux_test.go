// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const printVariable = "LEASEHOLD_CLOCK_TEST_PRINT"

// A machine cannot be put to sleep by a test, but a time namespace makes a process see what it would see after a sleep:
// CLOCK_BOOTTIME ahead of CLOCK_MONOTONIC by the time slept.
func TestClock_CountsWhatTheMachineSlept(t *testing.T) {
	const slept = 30 * 24 * time.Hour
	ahead := func() (time.Duration, bool) {
		monotonic, ok := read(unix.CLOCK_MONOTONIC)
		return New().Now().Sub(monotonic), ok && !inBubble()
	}
	if os.Getenv(printVariable) != "" {
		d, ok := ahead()
		fmt.Println(int64(d), ok)
		return
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seconds := fmt.Sprint(int64(slept.Seconds()))
	unshare := func(flags ...string) *exec.Cmd {
		args := append(flags, "--time", "--boottime", seconds, "--")
		return exec.CommandContext(t.Context(), "unshare", append(args, self, "-test.run=^"+t.Name()+"$")...)
	}
	// As root there is a namespace for the asking; others get it in a namespace of users, on most systems.
	cmd := unshare()
	if os.Geteuid() != 0 {
		cmd = unshare("--user", "--map-root-user")
	}
	cmd.Env = append(os.Environ(), printVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "--- FAIL") {
		t.Skipf("this system gives no time namespace: %v: %s", err, out)
	}
	var printed int64
	var real bool
	if _, err := fmt.Sscan(string(out), &printed, &real); err != nil {
		t.Fatalf("the process in the namespace printed %q: %v", out, err)
	}
	if !real {
		t.Error("after the sleep the real world was taken for a bubble")
	}
	before, _ := ahead()
	if got := time.Duration(printed) - before; (got - slept).Abs() > time.Minute {
		t.Errorf("the clock counted %v of a sleep of %v", got, slept)
	}
}
