// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// bare connects to a member without the client's retries.
func bare(t *testing.T, c *Cluster, member int) pb.KVClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.Member(member).Endpoint(),
		grpc.WithContextDialer(c.NewHost().DialContext), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return pb.NewKVClient(conn)
}

func TestIsolated_RequestsTimeOutAsEtcdSays(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		ctx := t.Context()
		cli := only(t, c, 1)
		mustPut(t, cli, "a", "1")
		c.Member(1).Isolate()
		check(t, "leader", c.Leader(), 0)

		// While it believes in its leader it sends the proposal off, to nobody.
		var err error
		kv := bare(t, c, 1)
		put := func() { _, err = kv.Put(ctx, &pb.PutRequest{Key: []byte("a")}) }
		get := func() { _, err = kv.Range(ctx, &pb.RangeRequest{Key: []byte("a")}) }
		check(t, "put", took(put), 7*time.Second)
		expects(t, "put", rpctypes.Error(err), rpctypes.ErrTimeout)
		// Then it knows no leader and takes none. clientv3 repeats this one a hundred times: it takes the code for
		// one of its own contexts.
		check(t, "put", took(put), 7*time.Second)
		check(t, "code", status.Code(err), codes.DeadlineExceeded)
		check(t, "linearizable read", took(get), 7*time.Second)
		expects(t, "linearizable read", rpctypes.Error(err), rpctypes.ErrTimeout)

		mustPut(t, only(t, c, 0), "a", "3")
		resp, err := cli.Get(ctx, "a", clientv3.WithSerializable())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "serializable read", string(resp.Kvs[0].Value), "1")

		go func() {
			time.Sleep(3 * time.Second)
			c.Member(1).Rejoin()
		}()
		check(t, "read that waits", took(get), 3*time.Second)
		expects(t, "read that waits", rpctypes.Error(err), rpctypes.ErrLeaderChanged)
		get()
		expects(t, "read afterwards", err, nil)
	})
}

func TestIsolated_StreamsThatRequireALeaderEnd(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 4}, func(t *testing.T, c *Cluster) {
		ctx := clientv3.WithRequireLeader(t.Context())
		cli := only(t, c, 2)
		id := mustGrant(t, cli, 60)
		r := renewing(ctx, t, cli)
		r.renew(id)
		w, err := pb.NewWatchClient(cli.ActiveConnection()).Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		careless, err := pb.NewWatchClient(cli.ActiveConnection()).Watch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Send(&pb.WatchRequest{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		start := time.Now()
		c.Member(2).Isolate()
		_, err = r.stream.Recv()
		expects(t, "keepalive", rpctypes.Error(err), rpctypes.ErrNoLeader)
		_, err = w.Recv()
		expects(t, "watch", rpctypes.Error(err), rpctypes.ErrNoLeader)
		// It loses its leader after one election timeout, and three checks in a row must find none.
		within(t, "the end", time.Since(start), 3*time.Second, 4*time.Second)

		r = renewing(ctx, t, cli)
		_, err = r.stream.Recv()
		expects(t, "new keepalive", rpctypes.Error(err), rpctypes.ErrNoLeader)

		c.Member(2).Rejoin()
		create := &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("a")}}
		if err := careless.Send(&pb.WatchRequest{RequestUnion: create}); err != nil {
			t.Fatal(err)
		}
		if resp, err := careless.Recv(); err != nil || !resp.Created {
			t.Errorf("the stream without that requirement got %v, %v", resp, err)
		}
	})
}

func TestElection_ANewLeaderRestartsEveryLeaseWithAnElectionTimeout(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 5}, func(t *testing.T, c *Cluster) {
		id := mustGrant(t, c.Client(t), 10)
		time.Sleep(8 * time.Second)
		start := time.Now()
		c.Member(0).Stop()
		if _, ok := c.LeaseExpiry(id); ok {
			t.Error("somebody times leases although nobody leads")
		}
		check(t, "leader", c.Leader(), -1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if l := c.Leader(); l != 1 && l != 2 {
			t.Fatalf("leader %d", l)
		}
		check(t, "term", c.Term(), 2)
		at, ok := c.LeaseExpiry(id)
		if !ok {
			t.Fatal("nobody times leases")
		}
		// Elected between one and two election timeouts after; the term is 10s and the election timeout 1s.
		within(t, "expiry", at.Sub(start), 12*time.Second, 13*time.Second)
	})
}

func TestElection_ACutOffLeaderRenewsUntilItStepsDown(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 6}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 0)
		id := mustGrant(t, cli, 10)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.Member(0).Isolate()
		time.Sleep(900 * ms)
		check(t, "TTL within the election timeout", r.renew(id), 10)
		old, _ := c.LeaseExpiry(id)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		fresh, ok := c.LeaseExpiry(id)
		if !ok || fresh.Before(old) {
			t.Errorf("the new leader's expiry %v is before what the old one promised, %v", fresh, old)
		}
		r.send(id)
		var err error
		waited := took(func() { _, err = r.stream.Recv() })
		expects(t, "renewal afterwards", rpctypes.Error(err), rpctypes.ErrNoLeader)
		check(t, "renewal afterwards", waited, 7*time.Second)
	})
}

func TestElection_OldServersRenewAsFormerLeaders(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 6, Lease: LeaseBehaviour{FormerLeaderRenews: true}}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 0)
		id := mustGrant(t, cli, 10)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		c.Member(0).Isolate()
		r := renewing(t.Context(), t, cli)
		for range 10 {
			check(t, "TTL of the former leader", r.renew(id), 10)
			time.Sleep(3 * time.Second)
		}
		check(t, "keys", len(c.Keys("a")), 0)
		c.Member(0).Rejoin()
		check(t, "TTL after it heard", r.renew(id), 0)
	})
}

func TestElection_WhatWasProposedBeforeMayOrMayNotBeApplied(t *testing.T) {
	applied, lost := 0, 0
	for seed := range uint64(20) {
		inBubble(t, Options{Members: 3, Seed: seed, CommitLatency: 500 * ms}, func(t *testing.T, c *Cluster) {
			cli := only(t, c, 1)
			mustPut(t, cli, "warm", "up")
			done := make(chan error, 1)
			go func() {
				_, err := cli.Put(t.Context(), "a", "")
				done <- err
			}()
			time.Sleep(100 * ms)
			c.Member(0).Stop()
			err := <-done
			switch {
			case err == nil && len(c.Keys("a")) == 1:
				applied++
			case len(c.Keys("a")) == 0:
				expects(t, "lost put", err, rpctypes.ErrTimeoutDueToLeaderFail)
				lost++
			default:
				t.Errorf("keys %v, error %v", c.Keys("a"), err)
			}
		})
	}
	if applied == 0 || lost == 0 {
		t.Errorf("%d applied, %d lost", applied, lost)
	}
}

func TestElection_NoQuorumNoLeader(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 7}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 0)
		id := mustGrant(t, cli, 5)
		c.Member(1).Stop()
		check(t, "leader", c.Leader(), 0)
		c.Member(2).Stop()
		check(t, "leader", c.Leader(), -1)
		time.Sleep(time.Minute)
		check(t, "leases", len(c.Leases()), 1)
		c.Member(1).Start()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c.Leader() < 0 {
			t.Error("nobody leads")
		}
		at, ok := c.LeaseExpiry(id)
		if !ok || time.Until(at) < 4*time.Second {
			t.Errorf("expiry %v %v", at, ok)
		}
	})
}

func TestMember_ALaggingOneIsBehindUntilItMayNotBe(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		c.Member(1).SetLag(time.Second)
		here, there := only(t, c, 1), only(t, c, 0)
		id := mustGrant(t, there, 60)
		rev := mustPut(t, there, "a", "")
		resp, err := here.Get(t.Context(), "a", clientv3.WithSerializable())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "stale keys", len(resp.Kvs), 0)
		check(t, "stale revision", resp.Header.Revision, rev-1)
		r := renewing(t.Context(), t, here)
		r.send(id)
		k := r.next()
		check(t, "TTL", k.TTL, 60)
		check(t, "revision of a renewal", k.Header.Revision, rev-1)
		wait := took(func() { resp, err = here.Get(t.Context(), "a") })
		if err != nil || len(resp.Kvs) != 1 {
			t.Errorf("linearizable read: %v, %v", resp, err)
		}
		check(t, "linearizable read", wait, time.Second)
	})
}
