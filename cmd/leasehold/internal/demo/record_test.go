// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/timeline"
	"example.com/leasehold/internal/machineclock"
)

func TestRecord_ClosestSeesAnOverlap(t *testing.T) {
	for _, tt := range []struct {
		name    string
		beliefs []belief
		want    time.Duration
	}{
		{"apart", []belief{{from: 1, expiry: 10, ended: 4}, {from: 6, expiry: 9}, {from: 20, expiry: 30}}, 2},
		{"ended late, but expired", []belief{{from: 1, expiry: 10, ended: 40}, {from: 15, expiry: 20}}, 5},
		{"overlap", []belief{{from: 1, expiry: 10}, {from: 8, expiry: 20}}, -2},
		{"a long one around a short one", []belief{{from: 1, expiry: 50}, {from: 8, expiry: 9}, {from: 20, expiry: 30}}, -42},
		{"noted out of order", []belief{{from: 8, expiry: 20}, {from: 1, expiry: 5}}, 3},
	} {
		r := record{beliefs: tt.beliefs}
		if got, ok := r.closest(); !ok || got != tt.want {
			t.Errorf("%s: %d, %v, want %d", tt.name, got, ok, tt.want)
		}
	}
	if _, ok := (&record{beliefs: []belief{{from: 1}}}).closest(); ok {
		t.Error("one belief has a distance")
	}
}

func TestRecord_LeadershipsOfMembersDoNotOverlap(t *testing.T) {
	r := record{members: make([]member, 3)}
	for at, m := range []int{1, -1, 2, 2, 0} {
		r.led(m, machineclock.Instant(at+1))
	}
	want := [][]stretch{{{from: 5}}, {{from: 1, to: 2}}, {{from: 3, to: 5}}}
	for i, m := range r.members {
		if len(m.leads) != 1 || m.leads[0] != want[i][0] {
			t.Errorf("m%d: %+v, want %+v", i, m.leads, want[i])
		}
	}
	if r.leader() != 0 {
		t.Errorf("leader %d", r.leader())
	}
}

func TestRecord_PictureShowsTheRefusedWriteAndTheMark(t *testing.T) {
	r := record{workers: []string{"a", "b"}, pids: []int{1, 2}, start: 100}
	p := r.picture("t", "s", []write{
		{at: 110, worker: 0, token: 3},
		{at: 120, worker: 1, token: 5},
		{at: 130, worker: 1, token: 5},
		{at: 140, worker: 0, token: 3, refused: errors.New("stale")},
	}, 200)
	register := p.Lanes[2]
	want := []timeline.Span{
		{Kind: timeline.Accepts, From: 10, To: 20, Label: "3", Hue: 1},
		{Kind: timeline.Accepts, From: 20, To: 100, Label: "5", Hue: 2},
	}
	if len(register.Spans) != 2 || register.Spans[0] != want[0] || register.Spans[1] != want[1] {
		t.Errorf("spans %+v, want %+v", register.Spans, want)
	}
	refused := 0
	for _, tick := range register.Ticks {
		if tick.Refused {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d refused writes are drawn", refused)
	}
}
