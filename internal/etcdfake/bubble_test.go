// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestBubble_AnHourOfRenewalsTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewForTest(t, Options{Members: 3, Seed: 1, CommitLatency: 2 * time.Millisecond})
		cli := c.Client(t)
		for i := range 3 {
			c.Link(cli, i).SetDelay(time.Millisecond, time.Millisecond)
		}
		ctx := t.Context()
		grant, err := cli.Grant(ctx, 15)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cli.Put(ctx, "k", "v", clientv3.WithLease(grant.ID)); err != nil {
			t.Fatal(err)
		}
		conn, err := cli.Dial(c.Endpoints()[1])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		sctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := pb.NewLeaseClient(conn).LeaseKeepAlive(sctx)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		n := 0
		for time.Since(start) < time.Hour {
			sent := time.Now()
			if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(grant.ID)}); err != nil {
				t.Fatal(err)
			}
			resp, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(sent); n > 0 && took != 2*time.Millisecond {
				t.Fatalf("renewal %d took %v, want one round trip of 2ms", n, took)
			}
			if resp.TTL != 15 {
				t.Fatalf("renewal %d answered TTL %d", n, resp.TTL)
			}
			n++
			time.Sleep(5 * time.Second)
		}
		if got := len(c.Renewals(grant.ID)); got != n {
			t.Errorf("recorded %d renewals, sent %d", got, n)
		}
		if len(c.Keys("")) != 1 {
			t.Error("the key went although its lease was renewed")
		}
		last := c.Renewals(grant.ID)[n-1].Answered
		if at, ok := c.LeaseExpiry(grant.ID); !ok || !at.Equal(last.Add(15*time.Second)) {
			t.Errorf("expiry %v %v, want 15s after %v", at, ok, last)
		}
		gone := make(chan time.Time, 1)
		c.OnChange(func(ch Change) { gone <- ch.At })
		if late := (<-gone).Sub(last) - 15*time.Second; late < 0 || late > 502*time.Millisecond {
			t.Errorf("key deleted %v after the expiry", late)
		}
	})
}
