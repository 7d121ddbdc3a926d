// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"testing"
	"time"

	"example.com/leasehold"
)

func TestElection_CandidatesAndLineAreInOrderWithTheirTerms(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	a, _ := h.standing(10 * time.Second)
	b, _ := h.standing(20 * time.Second)
	for _, of := range []func() ([]leasehold.Contender, error){
		func() ([]leasehold.Contender, error) { return a.Election("name").Candidates(within(h.t)) },
		func() ([]leasehold.Contender, error) { return b.Line(within(h.t), "name") },
	} {
		if line, err := of(); err != nil || len(line) != 0 {
			t.Errorf("nobody is in line: %v, %v", line, err)
		}
		first := h.campaign(a.Election("name"), "first")
		second := h.campaignAside(t.Context(), b.Election("name"), "second")
		h.awaitLine("name", 2)
		third := h.campaignAside(t.Context(), a.Election("name"), "third")
		h.awaitLine("name", 3)
		if _, err := h.DirectClient(t).Put(within(h.t), h.prefix+"name/stranger", "stranger"); err != nil {
			t.Fatal(err)
		}
		line, err := of()
		if err != nil || len(line) != 4 {
			t.Fatalf("%v, %v", line, err)
		}
		for i, want := range []leasehold.Contender{
			{Value: "first", Lease: a.Lease(), TTL: 10 * time.Second},
			{Value: "second", Lease: b.Lease(), TTL: 20 * time.Second},
			{Value: "third", Lease: a.Lease(), TTL: 10 * time.Second},
			{Value: "stranger"},
		} {
			got := line[i]
			if got.Value != want.Value || got.Lease != want.Lease || got.TTL != want.TTL ||
				got.Remaining > want.TTL || (want.TTL > 0) != (got.Remaining > 0) {
				t.Errorf("%d: %+v, want %+v", i, got, want)
			}
			if i > 0 && got.Token <= line[i-1].Token {
				t.Errorf("%d: token %v after %v", i, got.Token, line[i-1].Token)
			}
		}
		if line[0].Token != first.Token() || line[0].Key != first.Key() {
			t.Errorf("the first is %+v, want %v", line[0], first.Key())
		}
		if err := h.Delete(within(h.t), h.prefix+"name/stranger"); err != nil {
			t.Fatal(err)
		}
		if err := first.Resign(within(h.t)); err != nil {
			t.Error(err)
		}
		for _, ch := range []<-chan candidacy{second, third} {
			c := await(t, "the next leads", ch)
			if c.err != nil {
				t.Fatal(c.err)
			}
			if err := c.l.Resign(within(h.t)); err != nil {
				t.Error(err)
			}
		}
	}
}
