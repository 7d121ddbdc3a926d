// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"strings"
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"example.com/leasehold/internal/machineclock"
)

// rehearsal is a story that has begun at instant 0 and whose reports come from the test.
func rehearsal(out *screen) *story {
	s := &story{narrator: &narrator{out: out, screen: terminal.Screen{Width: 100}}}
	s.workers = []string{"alpha", "beta", "gamma"}
	s.waiting = make([]bool, len(s.workers))
	return s
}

const second = machineclock.Instant(time.Second)

func told(out *screen) string { return strings.Join(strings.Fields(out.String()), " ") }

// TestStory_NeverTellsOfAnAcquireBeforeTheReleaseThatAllowedIt is about reports that overtake each other: they come through two
// pipes, and read the wrong way round they look like two holders.
func TestStory_NeverTellsOfAnAcquireBeforeTheReleaseThatAllowedIt(t *testing.T) {
	out := new(screen)
	s := rehearsal(out)
	for _, r := range []tagged{
		{worker: 0, report: report{Event: evAcquired, At: 1 * second, Token: 4, Expiry: 9 * second}},
		{worker: 2, report: report{Event: evAcquired, At: 3*second + 1, Token: 6, Expiry: 9 * second}},
		{worker: 2, report: report{Event: evChecked, At: 3*second + 2, Token: 6, Valid: true, Expiry: 9 * second}},
		{worker: 0, report: report{Event: evReleased, At: 3 * second, Token: 4}},
	} {
		if err := s.receive(r, r.At); err != nil {
			t.Fatal(err)
		}
		s.flush() // as if a long time had gone by
	}
	if text := told(out); !strings.Contains(text, "holds the lock with token 4 3.00 s alpha releases token 4 3.00 s gamma holds the lock with token 6") {
		t.Errorf("\n%s", out)
	}
	if len(s.beliefs) != 2 || len(s.checks) != 1 || len(s.early) != 0 {
		t.Errorf("%d beliefs, %d checks, %d reports that are left", len(s.beliefs), len(s.checks), len(s.early))
	}
}

func TestStory_TwoHoldersAreTold(t *testing.T) {
	out := new(screen)
	s := rehearsal(out)
	for _, r := range []tagged{
		{worker: 0, report: report{Event: evAcquired, At: 1 * second, Token: 4, Expiry: 9 * second}},
		{worker: 2, report: report{Event: evAcquired, At: 3 * second, Token: 6, Expiry: 9 * second}},
	} {
		if err := s.receive(r, r.At); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.overdue(3*second + machineclock.Instant(overtaking)); err != nil {
		t.Fatal(err)
	}
	if len(s.beliefs) != 2 {
		t.Fatal("the second holder was kept back for good")
	}
	if closest, ok := s.closest(); !ok || closest >= 0 {
		t.Errorf("they are %v apart", closest)
	}
}

func TestStory_AStoppedHoldersSuccessorNeedNotWaitForIt(t *testing.T) {
	s := rehearsal(new(screen))
	for _, r := range []tagged{
		{worker: 0, report: report{Event: evAcquired, At: 1 * second, Token: 4, Expiry: 5 * second}},
		{worker: 2, report: report{Event: evAcquired, At: 6 * second, Token: 6, Expiry: 9 * second}},
	} {
		if err := s.receive(r, r.At); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.beliefs) != 2 {
		t.Error("it waits for a release that nobody can report")
	}
}

func TestNarrator_TellsInTheOrderOfTheInstants(t *testing.T) {
	out := new(screen)
	n := &narrator{out: out, screen: terminal.Screen{Width: 100}}
	n.tell(2*time.Second, "b", "0", "second")
	n.tell(1*time.Second, "a", "0", "first")
	n.tell(3*time.Second, "c", "0", "third")
	n.flushUntil(2 * time.Second)
	if text := told(out); text != "1.00 s a first 2.00 s b second" {
		t.Errorf("%q", text)
	}
	n.expect(true, "what is expected comes after what it is about")
	n.heading("as does the next chapter")
	if text := told(out); !strings.HasSuffix(text, "3.00 s c third ✓ what is expected comes after what it is about as does the next chapter") {
		t.Errorf("%q", text)
	}
}
