// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"sync"
	"testing"
	"time"
)

// Three goroutines of one session take turns. Their keys are used again and again, so that a waiter often finds the key that it
// has waited for put once more, by somebody who is behind it now. If it took that for the one ahead, both would wait for each
// other until the line is looked at anyway: after half of a term of five minutes.
func TestLock_AKeyThatIsUsedAgainIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(5 * time.Minute)
	const turns = 500
	ctx, cancel := context.WithTimeout(t.Context(), step)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for i := range turns {
				g, err := s.Lock(ctx, "name")
				if err != nil {
					t.Errorf("turn %d: %v", i, err)
					return
				}
				if err := g.Release(ctx); err != nil {
					t.Errorf("turn %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
