// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"time"

	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// Short ticks, so that a change of leader fits into the demo's short term as it does into a default one of 15 s.
func startCluster(ctx context.Context) (*leaseholdtest.Cluster, error) {
	return leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: 3})
}

// leadership is a reading of who leads: a member's index, or -1 for nobody.
type leadership struct {
	at     machineclock.Instant
	member int
}

// watchLeader sends who leads, whenever that changes, until ctx ends. It owns no goroutine; the caller does.
func watchLeader(ctx context.Context, c *leaseholdtest.Cluster, changes chan<- leadership) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	last := -1
	for {
		now := -1
		if m := c.Leader(); m != nil {
			now = m.Index()
		}
		if now != last {
			last = now
			select {
			case changes <- leadership{machineclock.Now(), now}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return
		}
	}
}
