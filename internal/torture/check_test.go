// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"
)

// at is an instant some milliseconds after the beginning of a run that began at 1 s.
func at(ms int) instant { return instant(time.Second) + instant(ms)*instant(time.Millisecond) }

// run is a history of a minute, its last ten seconds without faults, in which one name is held throughout those.
func run(beliefs ...belief) *history {
	h := &history{
		Subject: "test", TTL: 3 * time.Second, Begin: at(0), Calm: at(50_000), End: at(60_000), Names: []string{"n0"},
		Beliefs: append(beliefs, held("last", 99, 50_000, 60_000)), Main: at(0),
	}
	return h
}

func held(id string, token int64, first, last int) belief {
	return belief{ID: id, Worker: "w0.0-0", Name: "n0", Key: "torture/n0/" + id, Lease: token, Token: token, Asked: at(first - 5), First: at(first), Last: at(last)}
}

func checked(h *history) *verdict {
	h.sort()
	return options{ttl: 3 * time.Second}.check(h)
}

func TestCheck_IsContentWithOneHolderAfterTheOther(t *testing.T) {
	v := checked(run(held("a", 1, 0, 1000), held("b", 2, 1001, 2000), belief{ID: "never", Name: "n0", Token: 1}))
	if v.failed() || v.grants != 3 {
		t.Errorf("%d grants: %s", v.grants, v.summary(run()))
	}
}

func TestCheck_FindsOverlaps(t *testing.T) {
	h := run(held("a", 1, 0, 1000), held("b", 2, 900, 1200), held("c", 3, 950, 1100))
	v := checked(h)
	if !v.failed() || v.overlapsBut(true) != 3 {
		t.Errorf("%d overlaps, want a-b, a-c and b-c", len(v.Overlaps))
	}
	if o := v.Overlaps[0]; o.Begin != at(900) || o.End != at(1000) {
		t.Errorf("the first from %v to %v", o.Begin, o.End)
	}
}

func TestCheck_TouchingBeliefsOverlap(t *testing.T) {
	if v := checked(run(held("a", 1, 0, 1000), held("b", 2, 1000, 1200))); v.overlapsBut(true) != 1 {
		t.Errorf("%d overlaps at an instant at which both believed", len(v.Overlaps))
	}
}

func TestCheck_AnOperatorExcusesAnOverlapForAWhile(t *testing.T) {
	deletion := func(ms int) fault {
		return fault{Kind: "delete", Begin: at(ms), End: at(ms), Worker: -1, Member: -1, Keys: []string{"torture/n0/a"}}
	}
	h := run(held("a", 1, 0, 1000), held("b", 2, 900, 1200))
	h.Faults = []fault{deletion(890)}
	if v := checked(h); v.failed() || v.overlapsBut(false) != 1 || v.longestTold != 110*time.Millisecond {
		t.Errorf("excused: %d, told after %v; failed: %v", v.overlapsBut(false), v.longestTold, v.failed())
	}
	h.Faults = []fault{deletion(950)}
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("what came after the overlap had begun excuses it")
	}
	h.Faults = []fault{deletion(890)}
	h.Faults[0].Keys[0] = "torture/n0/other"
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("another key excuses it")
	}
	h.Faults = []fault{deletion(890)}
	h.Faults[0].Created, h.Beliefs[0].Created = 7, 8
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("what once had the same key excuses it")
	}
	h = run(held("a", 1, 0, 20_000))
	h.Faults = []fault{deletion(500)}
	if v := checked(h); len(v.ToldLate) != 1 {
		t.Error("a holder who was not told for twenty seconds was not found")
	}
	h = run(held("a", 1, 0, 1000), held("b", 2, 900, 1200))
	h.Faults = []fault{{Kind: "revoke", Begin: at(890), End: at(890), Worker: -1, Member: -1, Keys: []string{"torture/n0/x"}, Lease: 1}}
	if v := checked(h); v.failed() {
		t.Error("a revocation of its lease does not excuse it")
	}
}

func TestCheck_AHolderThatWasKilledCountsUntilItsOwnExpiry(t *testing.T) {
	a := held("a", 1, 0, 500)
	a.Until, a.Why = at(900), killed
	if v := checked(run(a, held("b", 2, 800, 1200))); v.overlapsBut(true) != 1 || v.Overlaps[0].End != at(900) {
		t.Errorf("%d overlaps: the first could have gone on until its expiry", v.overlapsBut(true))
	}
	if v := checked(run(a, held("b", 2, 901, 1200))); v.failed() {
		t.Errorf("failed: %s", v.summary(run()))
	}
}

func TestCheck_WhatAnOperatorTookOfTheNewerHolderExcusesNothing(t *testing.T) {
	h := run(held("a", 1, 0, 1000), held("b", 2, 900, 1200))
	h.Faults = []fault{{Kind: operatorDelete, Begin: at(890), End: at(890), Worker: -1, Member: -1, Keys: []string{"torture/n0/b"}, Lease: 2}}
	h.Beliefs[1].Asked = at(800)
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("the newer one's key explains why it was let in beside the older one")
	}
	h = run(held("a", 1, 0, 1000), held("b", 1, 900, 1200))
	h.Faults = []fault{{Kind: operatorDelete, Begin: at(890), End: at(890), Worker: -1, Member: -1, Keys: []string{"torture/n0/a"}}}
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("two with one token are excused")
	}
}

func TestCheck_DataThatGoesBackEndsWhatWasHeldAndNoMore(t *testing.T) {
	rewind := []fault{{Kind: rollBack, Begin: at(890), End: at(950), Worker: -1, Member: -1, Rewind: true}}
	h := run(held("a", 70, 0, 1000), held("b", 20, 960, 1200), held("c", 21, 1201, 1300))
	h.Faults = rewind
	if v := checked(h); v.failed() || v.overlapsBut(false) != 1 {
		t.Errorf("across a rollback: %s", v.summary(h))
	}
	h = run(held("a", 70, 0, 800), held("b", 20, 960, 1200), held("c", 21, 1100, 1300))
	h.Faults = rewind
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("two who both began after it are excused")
	}
	h = run(held("a", 10, 0, 500), held("b", 11, 400, 800))
	h.Faults = rewind
	if v := checked(h); v.overlapsBut(true) != 1 {
		t.Error("two who both ended before it are excused")
	}
	h = run(held("a", 70, 0, 800), held("b", 20, 960, 1200), held("c", 19, 1201, 1300))
	h.Faults = rewind
	if v := checked(h); len(v.Tokens) != 1 {
		t.Errorf("tokens begin anew once, and rise from there: %v", v.Tokens)
	}
	h = run(held("a", 10, 0, 20_000))
	h.Faults = rewind
	if v := checked(h); len(v.ToldLate) != 1 {
		t.Error("a holder who was not told for twenty seconds was not found")
	}
}

func TestCheck_FindsTokensThatDoNotRise(t *testing.T) {
	for _, second := range []int64{1, 2} {
		if v := checked(run(held("a", 2, 0, 1000), held("b", second, 1001, 1200))); len(v.Tokens) != 1 || !v.failed() {
			t.Errorf("token %d after 2: %v", second, v.Tokens)
		}
	}
}

func TestCheck_FindsNamesThatNobodyGets(t *testing.T) {
	h := run()
	h.Beliefs = []belief{held("a", 1, 0, 1000), held("b", 2, 49_000, 50_100)}
	h.End = at(70_000)
	if v := checked(h); len(v.Stuck) != 0 {
		t.Errorf("nobody wanted it: %v", v.Stuck)
	}
	h.Acquires = []acquire{{Worker: "w1.0-0", Name: "n0", Asked: at(49_500), Until: at(75_000)}}
	if v := checked(h); len(v.Stuck) != 1 || !strings.Contains(v.Stuck[0], "19.9s") {
		t.Errorf("nobody held it for the last 19.9 s: %v", v.Stuck)
	}
	h.Beliefs = []belief{held("a", 1, 61_000, 70_000)}
	if v := checked(h); len(v.Stuck) != 1 || !strings.Contains(v.Stuck[0], "11s, from 0s") {
		t.Errorf("nobody held it for eleven seconds after the faults: %v", v.Stuck)
	}
	h.Beliefs = []belief{held("a", 1, 0, 49_000), held("b", 2, 57_000, 64_000)}
	if v := checked(h); len(v.Stuck) != 0 {
		t.Errorf("eight seconds are allowed: %v", v.Stuck)
	}
}

func TestCheck_FindsRegistersThatGoBackOrContradictTheirCallers(t *testing.T) {
	op := func(token int64, value string, call, back int, ok bool, highest int64, seen string) write {
		return write{Worker: "w0.0-0", Name: "n0", Token: token, Value: value, Call: at(call), Return: at(back), OK: ok, Highest: highest, Seen: seen}
	}
	read := func(call, back int, seen string) write {
		w := op(1, "", call, back, true, 0, seen)
		w.Read = true
		return w
	}
	unanswered := op(3, "lost", 60, 0, false, 0, "")
	unanswered.Return = 0
	for name, tc := range map[string]struct {
		writes  []write
		applied []applied
		ok      bool
	}{
		"one after the other":  {[]write{op(1, "a", 0, 10, true, 1, ""), op(2, "b", 20, 30, true, 2, "a"), op(1, "c", 40, 50, false, 2, "b"), read(60, 70, "b")}, nil, true},
		"at the same time":     {[]write{op(2, "b", 0, 50, true, 2, "a"), op(1, "a", 0, 50, true, 1, "")}, nil, true},
		"a stale write taken":  {[]write{op(2, "b", 0, 10, true, 2, ""), op(1, "a", 20, 30, true, 1, "b")}, nil, false},
		"a write refused":      {[]write{op(2, "b", 0, 10, false, 3, "")}, nil, false},
		"an old value read":    {[]write{op(1, "a", 0, 10, true, 1, ""), op(2, "b", 20, 30, true, 2, "a"), read(40, 50, "a")}, nil, false},
		"a lost answer":        {[]write{unanswered, read(70, 80, "lost")}, []applied{{At: at(65), Name: "n0", Token: 3, Value: "lost"}}, true},
		"a lost write":         {[]write{unanswered, read(70, 80, "")}, nil, true},
		"a caller that died":   {[]write{read(70, 80, "w1.0-0-1@1000000001")}, []applied{{At: at(65), Name: "n0", Token: 3, Value: "w1.0-0-1@1000000001"}}, true},
		"a late write lost":    {[]write{unanswered, read(70, 80, "lost"), read(81, 90, "")}, []applied{{At: at(65), Name: "n0", Token: 3, Value: "lost"}}, false},
		"a value from nowhere": {[]write{read(70, 80, "what")}, nil, false},
		"going back":           {nil, []applied{{At: at(1), Name: "n0", Token: 3, Value: "b@1"}, {At: at(2), Name: "n0", Token: 2, Value: "b@2"}}, false},
	} {
		h := run()
		h.Writes, h.Applied = tc.writes, tc.applied
		if v := checked(h); tc.ok == v.failed() {
			t.Errorf("%s: %v", name, v.Register)
		}
	}
}

func TestCheck_CountsRefusalsAndLateWrites(t *testing.T) {
	h := run(held("a", 1, 0, 1000), held("b", 2, 1001, 2000))
	h.Main = at(100)
	refused := write{Worker: "w0.0-0", Name: "n0", Token: 1, Value: "a@1", OK: false, Highest: 2, Seen: "b@2"}
	first := write{Worker: "w0.0-1", Name: "n0", Token: 2, Value: "b@2", Call: at(10), Return: at(20), OK: true, Highest: 2}
	early, late := refused, refused
	early.Call, early.Return, late.Call, late.Return = at(50), at(60), at(2500), at(2510)
	h.Writes = []write{first, early, late}
	h.Applied = []applied{{At: at(15), Name: "n0", Token: 2, Value: "b@2"}}
	if v := checked(h); v.failed() || v.refused != 1 || v.refusedPast != 1 || v.accepted != 1 || v.late != 0 {
		t.Errorf("refused %d and %d, accepted %d, late %d: %s", v.refused, v.refusedPast, v.accepted, v.late, v.summary(h))
	}
	h.Applied[0].At = at(2001)
	if n := h.late(); n != 1 {
		t.Errorf("%d late writes, want the one of b", n)
	}
}
