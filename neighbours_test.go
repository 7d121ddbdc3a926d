// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
)

// The place found under the key just ahead may be a later one, which has taken the slot and waits behind.
func TestNeighbours_OnlyAnOlderPlaceIsCountedOn(t *testing.T) {
	e := &engine{}
	e.keeper = &keeper{engine: e, sessions: map[clientv3.LeaseID]*Session{}}
	s := &Session{engine: e}
	s.id, s.clk = 7, clock.New()
	e.keeper.sessions[s.id] = s
	p := &place{session: s, dir: "d/", key: "d/other", token: 10}
	front := &place{session: s, dir: "d/"}
	s.slots.take(front)
	for _, c := range []struct {
		token  Token
		counts bool
	}{{0, false}, {11, false}, {9, true}} {
		front.token, front.behind = c.token, nil
		if got := p.follow(front.key); (got == front) != c.counts || (front.behind == p) != c.counts {
			t.Errorf("a place with token %v is followed by one with 10: %v", c.token, got == front)
		}
	}
	front.left.Store(true)
	if p.follow(front.key) != nil {
		t.Error("a place that was left is counted on")
	}
}
