// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/leasehold/internal/clock"
)

func TestWait_LastsAsLongAsItsContextAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := clock.Wait(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v, want nil after a minute", err, time.Since(begin))
		}
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		begin = time.Now()
		if err := clock.Wait(ctx, time.Minute); !errors.Is(err, why) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v, want the context's cause after a second", err, time.Since(begin))
		}
	})
}
