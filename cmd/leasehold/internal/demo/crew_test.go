// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
)

func recruits(t *testing.T) *crew {
	t.Helper()
	self, err := offspring.Self()
	if err != nil {
		t.Fatal(err)
	}
	// Nobody listens there: the workers stay busy with opening a session.
	c, err := muster([]string{"one", "two"}, self, []string{workerArg}, briefing{Endpoints: []string{"127.0.0.1:1"}, TTL: time.Second, Beat: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCrew_WorkersLeaveWhenTheirPipeCloses(t *testing.T) {
	if err := recruits(t).dismiss(30 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestCrew_DismissEndsAStoppedWorker(t *testing.T) {
	if !canPause {
		t.Skip("no SIGSTOP on this system")
	}
	c := recruits(t)
	if err := pause(c.workers[0].child); err != nil {
		t.Fatal(err)
	}
	if err := c.dismiss(0); err == nil {
		t.Error("a killed worker left well")
	}
	if err := c.dismiss(0); err != nil {
		t.Errorf("called again: %v", err)
	}
}

func TestMuster_LeavesNobodyBehindWhenOneCannotStart(t *testing.T) {
	if _, err := muster([]string{"one"}, "/does/not/exist", nil, briefing{}); err == nil {
		t.Error("no error")
	}
}
