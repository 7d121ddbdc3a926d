// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"context"
	"time"
)

// Wait waits for d, by one of Go's timers, or until ctx ends, whose cause it returns then.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
