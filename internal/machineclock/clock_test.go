// SPDX-License-Identifier: Apache-2.0

package machineclock

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("MACHINECLOCK_PRINT") != "" {
		os.Stdout.WriteString(strconv.FormatInt(int64(Now()), 10))
		return
	}
	os.Exit(m.Run())
}

func TestNow_ReadingsOfTwoProcessesCompare(t *testing.T) {
	before := Now()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "MACHINECLOCK_PRINT=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	after := Now()
	n, err := strconv.ParseInt(string(out), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if child := Instant(n); child < before || child > after {
		t.Errorf("the child read %d, outside of its parent's %d to %d", child, before, after)
	}
}

func TestNow_NeverGoesBack(t *testing.T) {
	last := Now()
	for range 10_000 {
		now := Now()
		if now < last {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}
