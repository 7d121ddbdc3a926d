// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

func TestHook_SeesEveryRequest(t *testing.T) {
	inBubble(t, Options{Members: 2}, func(t *testing.T, c *Cluster) {
		cli := only(t, c, 1)
		var mu sync.Mutex
		var seen []string
		remove := c.Hook(func(ctx context.Context, call Call, next Next) (proto.Message, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(call.Member, " ", call.Method))
			check(t, "host", call.Host, c.HostOf(cli).Name())
			return next(ctx)
		})
		id := mustGrant(t, cli, 60)
		mustPut(t, cli, "a", "")
		renewing(t.Context(), t, cli).renew(id)
		ctx, cancel := context.WithCancel(t.Context())
		<-cli.Watch(ctx, "a", clientv3.WithCreatedNotify())
		cancel()
		synctest.Wait()
		remove()
		mustPut(t, cli, "a", "")
		check(t, "requests", fmt.Sprint(seen), "[1 Lease/LeaseGrant 1 KV/Put 1 Lease/LeaseKeepAlive 1 Watch/Watch]")
	})
}

func TestHook_DelayedRequestsAreAppliedAfterTheirClientGaveUp(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(On("KV/Put", Delay(10*time.Second)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cli.Put(ctx, "a", "")
		expects(t, "put", err, context.DeadlineExceeded)
		synctest.Wait()
		check(t, "keys", len(c.Keys("a")), 0)
		time.Sleep(10 * time.Second)
		check(t, "keys", len(c.Keys("a")), 1)
	})
}

func TestHook_AttemptsCanOvertakeEachOther(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(Once(func(call Call) bool { return call.Method == "KV/Put" }, Delay(time.Second)))
		var wg sync.WaitGroup
		wg.Go(func() { mustPut(t, cli, "a", "first") })
		time.Sleep(100 * ms)
		mustPut(t, cli, "a", "second")
		wg.Wait()
		check(t, "last value", string(c.Keys("a")[0].Value), "first")
	})
}

func TestHook_LostAnswersLeaveTheRequestApplied(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(Once(func(call Call) bool { return call.Method == "KV/Txn" }, LoseAnswer()))
		_, err := cli.Txn(t.Context()).Then(clientv3.OpPut("a", "")).Commit()
		if err == nil {
			t.Error("the answer arrived")
		}
		check(t, "keys", len(c.Keys("a")), 1)

		c.Hook(Once(func(call Call) bool { return call.Method == "KV/Put" }, LoseRequest()))
		if _, err = cli.Put(t.Context(), "b", ""); err == nil {
			t.Error("the answer arrived")
		}
		check(t, "keys", len(c.Keys("b")), 0)

		remove := c.Hook(On("KV/DeleteRange", KeepAnswer()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		check(t, "delete", took(func() { _, err = cli.Delete(ctx, "a") }), time.Minute)
		expects(t, "delete", err, context.DeadlineExceeded)
		check(t, "keys", len(c.Keys("a")), 0)
		remove()

		c.Hook(On("KV/Put", DelayAnswer(3*time.Second)))
		check(t, "put", took(func() { mustPut(t, cli, "c", "") }), 3*time.Second)
	})
}

func TestHook_RepeatedRequestsAreAppliedAgain(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(On("KV/Txn", Repeat(2)))
		resp, err := cli.Txn(t.Context()).
			If(clientv3.Compare(clientv3.CreateRevision("a"), "=", 0)).
			Then(clientv3.OpPut("a", "")).
			Commit()
		if err != nil {
			t.Fatal(err)
		}
		check(t, "succeeded", resp.Succeeded, false)
		check(t, "keys", len(c.Keys("a")), 1)
	})
}

func TestHook_FailuresAreEtcdsOwn(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(On("KV/Put", Fail(rpctypes.ErrGRPCPermissionDenied)))
		_, err := cli.Put(t.Context(), "a", "")
		expects(t, "put", err, rpctypes.ErrPermissionDenied)
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.Hook(On("Lease/LeaseKeepAlive", Fail(rpctypes.ErrGRPCLeaderChanged)))
		r.send(id)
		_, err = r.stream.Recv()
		expects(t, "renewal", rpctypes.Error(err), rpctypes.ErrLeaderChanged)
	})
}

func TestHook_ADelayedRenewalDelaysItsStream(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		slow, fast := mustGrant(t, cli, 60), mustGrant(t, cli, 60)
		c.Hook(On("Lease/LeaseKeepAlive", func(ctx context.Context, call Call, next Next) (proto.Message, error) {
			if call.Request.(*pb.LeaseKeepAliveRequest).ID == int64(slow) {
				return Delay(5*time.Second)(ctx, call, next)
			}
			return next(ctx)
		}))
		r := renewing(t.Context(), t, cli)
		r.send(slow)
		r.send(fast)
		check(t, "slow", took(func() { check(t, "id", r.next().ID, int64(slow)) }), 5*time.Second)
		check(t, "fast", took(func() { check(t, "id", r.next().ID, int64(fast)) }), 0)
		log := c.Renewals(fast)
		check(t, "renewals recorded", len(log), 1)
		check(t, "arrival", log[0].Arrived, log[0].Answered)
	})
}

// A hook that sleeps must not keep the bubble from ending.
func TestHook_ADelayEndsWithTheCluster(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		c.Hook(Delay(time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := cli.Put(ctx, "a", "")
		expects(t, "put", err, context.DeadlineExceeded)
	})
}
