// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// RaiseNoSpace raises the alarm that a member raises whose database has reached its quota: writes, also those of a
// transaction's branch, and new leases fail; reads, renewals, deletes and revocations go on. It returns when all
// running members know of it. See [Options.QuotaBytes] for the real thing.
func (c *Cluster) RaiseNoSpace(ctx context.Context) error {
	err := c.operate(ctx, "raise the no-space alarm", func(cl *clientv3.Client) error {
		// clientv3 can only list and disarm alarms. Whose alarm it is does not matter.
		_, err := pb.NewMaintenanceClient(cl.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
			Action:   pb.AlarmRequest_ACTIVATE,
			MemberID: c.members[0].ID(),
			Alarm:    pb.AlarmType_NOSPACE,
		})
		return err
	})
	if err != nil {
		return err
	}
	return c.Settle(ctx)
}

// ClearAlarms disarms all alarms, and returns when all running members know of it. It frees no space: a database that
// has reached its quota raises the alarm again at the next write. Delete, [Cluster.Compact] and [Cluster.Defragment]
// before.
func (c *Cluster) ClearAlarms(ctx context.Context) error {
	err := c.operate(ctx, "disarm the alarms", func(cl *clientv3.Client) error {
		_, err := cl.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		return err
	})
	if err != nil {
		return err
	}
	return c.Settle(ctx)
}

// Defragment gives the space of deleted and compacted keys back, on every running member in turn.
func (c *Cluster) Defragment(ctx context.Context) error {
	return c.operate(ctx, "defragment", func(cl *clientv3.Client) error {
		for _, m := range c.members {
			if !m.Running() {
				continue
			}
			if _, err := cl.Defragment(ctx, m.Endpoint()); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
		return nil
	})
}
