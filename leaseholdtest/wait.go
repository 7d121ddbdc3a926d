// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"time"
)

// pollInterval is how often a condition without an event of its own is looked at.
const pollInterval = 5 * time.Millisecond

// waitUntil returns as soon as cond is true, or the context's cause.
func waitUntil(ctx context.Context, cond func() bool) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !cond() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
