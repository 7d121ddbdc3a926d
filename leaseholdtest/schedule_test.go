// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

func TestNewSchedule_SameSeedSameSchedule(t *testing.T) {
	o := leaseholdtest.ScheduleOptions{Members: 3, Clients: 2, Length: time.Minute}
	a, b := leaseholdtest.NewSchedule(7, o), leaseholdtest.NewSchedule(7, o)
	if a.String() != b.String() {
		t.Errorf("one seed, two schedules:\n%s\n\n%s", a, b)
	}
	if other := leaseholdtest.NewSchedule(8, o); other.String() == a.String() {
		t.Error("two seeds, one schedule")
	}
}

func TestNewSchedule_EveryActionComesUp(t *testing.T) {
	s := leaseholdtest.NewSchedule(1, leaseholdtest.ScheduleOptions{Members: 5, Clients: 3, Length: time.Hour})
	for _, want := range []leaseholdtest.Action{
		leaseholdtest.ActKill, leaseholdtest.ActStop, leaseholdtest.ActRestart, leaseholdtest.ActPause, leaseholdtest.ActResume,
		leaseholdtest.ActIsolate, leaseholdtest.ActRejoin, leaseholdtest.ActCut, leaseholdtest.ActCutOneWay, leaseholdtest.ActMend,
		leaseholdtest.ActLead, leaseholdtest.ActCompact, leaseholdtest.ActHold, leaseholdtest.ActBlackhole, leaseholdtest.ActDelay,
		leaseholdtest.ActLimit, leaseholdtest.ActRefuse, leaseholdtest.ActReset, leaseholdtest.ActHeal,
	} {
		if !slices.ContainsFunc(s.Steps, func(s leaseholdtest.Step) bool { return s.Do == want }) {
			t.Errorf("an hour of schedule has no %s", want)
		}
	}
}

func TestNewSchedule_EveryFaultEnds(t *testing.T) {
	ends := map[leaseholdtest.Action]leaseholdtest.Action{
		leaseholdtest.ActKill: leaseholdtest.ActRestart, leaseholdtest.ActStop: leaseholdtest.ActRestart,
		leaseholdtest.ActPause: leaseholdtest.ActResume, leaseholdtest.ActIsolate: leaseholdtest.ActRejoin,
		leaseholdtest.ActCut: leaseholdtest.ActMend, leaseholdtest.ActCutOneWay: leaseholdtest.ActMend,
		leaseholdtest.ActHold: leaseholdtest.ActHeal, leaseholdtest.ActBlackhole: leaseholdtest.ActHeal,
		leaseholdtest.ActDelay: leaseholdtest.ActHeal, leaseholdtest.ActLimit: leaseholdtest.ActHeal, leaseholdtest.ActRefuse: leaseholdtest.ActHeal,
	}
	const longest = 3 * time.Second
	for seed := range uint64(50) {
		s := leaseholdtest.NewSchedule(seed, leaseholdtest.ScheduleOptions{Members: 3, Clients: 2, Length: time.Minute, Longest: longest})
		for i, step := range s.Steps {
			end := ends[step.Do]
			if end == "" {
				continue
			}
			ended := slices.ContainsFunc(s.Steps[i:], func(e leaseholdtest.Step) bool {
				return e.Do == end && e.At <= step.At+longest && e.Client == step.Client && e.Member == step.Member && e.Other == step.Other
			})
			if !ended {
				t.Fatalf("seed %d: step %d, %q, does not end:\n%s", seed, i, step, s)
			}
		}
	}
}

func TestNewSchedule_KeepsTheQuorum(t *testing.T) {
	for _, members := range []int{1, 3, 5} {
		for seed := range uint64(50) {
			s := leaseholdtest.NewSchedule(seed, leaseholdtest.ScheduleOptions{
				Members: members, Length: time.Minute, Every: 100 * time.Millisecond, KeepQuorum: true,
			})
			lost := make(map[int]bool) // a cut counts against one of its ends
			for i, step := range s.Steps {
				switch step.Do {
				case leaseholdtest.ActKill, leaseholdtest.ActStop, leaseholdtest.ActPause, leaseholdtest.ActIsolate,
					leaseholdtest.ActCut, leaseholdtest.ActCutOneWay:
					if lost[step.Member] {
						t.Fatalf("seed %d: step %d, %q, meets another fault:\n%s", seed, i, step, s)
					}
					lost[step.Member] = true
				case leaseholdtest.ActRestart, leaseholdtest.ActResume, leaseholdtest.ActRejoin, leaseholdtest.ActMend:
					delete(lost, step.Member)
				default:
				}
				if len(lost) > (members-1)/2 {
					t.Fatalf("%d members, seed %d: step %d, %q, loses the quorum:\n%s", members, seed, i, step, s)
				}
			}
		}
	}
}

func TestNewSchedule_DrawsTheChosenActionsOnly(t *testing.T) {
	s := leaseholdtest.NewSchedule(3, leaseholdtest.ScheduleOptions{Members: 3, Actions: []leaseholdtest.Action{leaseholdtest.ActPause}})
	if len(s.Steps) == 0 {
		t.Error("no steps")
	}
	for _, step := range s.Steps {
		if step.Do != leaseholdtest.ActPause && step.Do != leaseholdtest.ActResume {
			t.Errorf("drew %q", step)
		}
	}
}

func TestParseSchedule_ReadsWhatStringWrites(t *testing.T) {
	for seed := range uint64(100) {
		s := leaseholdtest.NewSchedule(seed, leaseholdtest.ScheduleOptions{Members: 5, Clients: 3, Length: time.Minute})
		back, err := leaseholdtest.ParseSchedule(s.String())
		must(t, err)
		if !slices.Equal(back.Steps, s.Steps) {
			t.Fatalf("seed %d came back as\n%s\nwas\n%s", seed, back, s)
		}
	}
}

func TestParseSchedule_IsLenientInSpaceOnly(t *testing.T) {
	s, err := leaseholdtest.ParseSchedule(" 1s  kill m0 ;;\n\n\t1500ms delay c2 m1 up 10ms 0s;2s restart m0\n")
	must(t, err)
	want := "1s kill m0\n1.5s delay c2 m1 up 10ms 0s\n2s restart m0"
	if s.String() != want {
		t.Errorf("read as\n%s\nwant\n%s", s, want)
	}
	for _, bad := range []string{
		"1s", "kill m0", "1s kill", "1s kill m5", "1s kill m-1", "1s kill x0", "1s kill m0 m1", "-1s kill m0", "25h kill m0",
		"1s nothing m0", "1s cut m0 m0", "1s hold c0 m0", "1s hold c0 m0 sideways", "1s hold c1000 m0 up", "1s limit c0 m0 up -1",
		"1s delay c0 m0 up 1s -1s", "2s kill m0; 1s restart m0", "NaNs kill m0", "1s kill m0\x00",
		strings.Repeat("0s compact\n", 10_001), strings.Repeat(" ", 1<<20+1),
	} {
		if s, err := leaseholdtest.ParseSchedule(bad); err == nil {
			t.Errorf("%.40q was read as %q", bad, s)
		}
	}
}

func FuzzParseSchedule(f *testing.F) {
	f.Add("1s kill m0; 2s restart m0")
	f.Add("0s delay c0 m1 both 100ms 20ms\n1h hold c999 m4 down")
	for seed := range uint64(5) {
		f.Add(leaseholdtest.NewSchedule(seed, leaseholdtest.ScheduleOptions{Members: 5, Clients: 3}).String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := leaseholdtest.ParseSchedule(text)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		written, err := s.MarshalText()
		if err != nil {
			t.Fatalf("read but not written: %v", err)
		}
		var back leaseholdtest.Schedule
		if err := back.UnmarshalText(written); err != nil || !slices.Equal(back.Steps, s.Steps) {
			t.Fatalf("%q was written as %q and read as %q, %v", text, written, back, err)
		}
	})
}

func FuzzNewSchedule(f *testing.F) {
	f.Add(uint64(1), 3, 2, int64(time.Minute), int64(time.Second), int64(time.Second))
	f.Add(uint64(2), 0, -1, int64(-1), int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, seed uint64, members, clients int, length, every, longest int64) {
		s := leaseholdtest.NewSchedule(seed, leaseholdtest.ScheduleOptions{
			Members: members % 6, Clients: clients % 1000,
			Length:  time.Duration(length) % time.Minute,
			Every:   max(time.Duration(every)%time.Minute, 50*time.Millisecond),
			Longest: time.Duration(longest) % time.Minute,
		})
		if _, err := s.MarshalText(); err != nil {
			t.Errorf("%v:\n%s", err, s)
		}
	})
}

func TestRandomSchedule_SaysHowToRepeatAFailure(t *testing.T) {
	o := leaseholdtest.ScheduleOptions{Members: 3, Clients: 1}
	var first leaseholdtest.Schedule
	v := judge(t, func(t testing.TB) {
		first = leaseholdtest.RandomSchedule(t, o)
		t.Errorf("it failed")
	})
	v.failedWith(t, leaseholdtest.ScheduleVariable+"='"+first.String()+"'", leaseholdtest.SeedVariable+"=")

	_, seed, _ := strings.Cut(v.said, leaseholdtest.SeedVariable+"=")
	seed, _, _ = strings.Cut(seed, "\n")
	t.Setenv(leaseholdtest.SeedVariable, seed)
	v = judge(t, func(t testing.TB) {
		if again := leaseholdtest.RandomSchedule(t, o); again.String() != first.String() {
			t.Errorf("the seed stands for\n%s\nwas\n%s", again, first)
		}
	})
	v.passed(t)
	if v.said != "" {
		t.Errorf("a test that passes says %q", v.said)
	}

	t.Setenv(leaseholdtest.ScheduleVariable, "1s kill m0")
	judge(t, func(t testing.TB) {
		if s := leaseholdtest.RandomSchedule(t, o); s.String() != "1s kill m0" {
			t.Errorf("the text was read as %q", s)
		}
	}).passed(t)
	for name, text := range map[string]string{leaseholdtest.ScheduleVariable: "nonsense", leaseholdtest.SeedVariable: "nonsense"} {
		t.Setenv(leaseholdtest.ScheduleVariable, "")
		t.Setenv(name, text)
		judge(t, func(t testing.TB) { leaseholdtest.RandomSchedule(t, o) }).failedWith(t, name)
	}
}

func TestDirection_HasAName(t *testing.T) {
	got := fmt.Sprint(leaseholdtest.Up, leaseholdtest.Down, leaseholdtest.Both, leaseholdtest.Direction(0))
	if want := "up down both none"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
