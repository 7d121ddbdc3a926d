// SPDX-License-Identifier: Apache-2.0

package lines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// askers is how many leases are asked for at once. The member that leads answers them all, from memory.
const askers = 64

// FillLeases asks etcd for the leases of the places and fills in what is left of them. Each lease is asked for once. A
// lease that has ended while its key is still there is a problem of the place.
func FillLeases(ctx context.Context, c *clientv3.Client, places ...*Place) error {
	byLease := make(map[clientv3.LeaseID][]*Place)
	for _, p := range places {
		if p.Lease != 0 {
			byLease[p.Lease] = append(byLease[p.Lease], p)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	todo := make(chan clientv3.LeaseID)
	var wg sync.WaitGroup
	for range min(askers, len(byLease)) {
		wg.Go(func() {
			for id := range todo {
				resp, err := c.TimeToLive(ctx, id)
				if err != nil {
					cancel(fmt.Errorf("ask for lease %x: %w", int64(id), err))
					return
				}
				for _, p := range byLease[id] { // each place is in one of these only
					p.Left = time.Duration(resp.TTL) * time.Second
					p.TTL = time.Duration(resp.GrantedTTL) * time.Second
					if resp.TTL < 0 && p.Problem == "" {
						p.Problem = "its lease has ended, and etcd is about to delete it"
					}
				}
			}
		})
	}
feed:
	for id := range byLease {
		select {
		case todo <- id:
		case <-ctx.Done():
			break feed
		}
	}
	close(todo)
	wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}
