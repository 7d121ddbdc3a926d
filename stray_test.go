// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
)

// Close waits for the strays and then, if it is the last user of the engine, for its goroutines: a stray that is done uses it no more.
func TestStray_UsesTheEngineNoMoreWhenItIsDone(t *testing.T) {
	e := &engine{users: 1}
	s := &Session{engine: e, ctx: context.Background()}
	for range 20_000 {
		_, done := s.stray()
		gone := s.strays.gone()
		go done()
		for waiting := true; waiting; {
			select {
			case <-gone:
				waiting = false
			default:
			}
		}
		engines.mu.Lock()
		users := e.users
		engines.mu.Unlock()
		if users != 1 {
			t.Fatalf("%d users when nothing was under way any more, want the one of before", users)
		}
	}
}
