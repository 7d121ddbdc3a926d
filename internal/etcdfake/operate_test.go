// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

func TestOperator_ChangesAreSeenAtOnce(t *testing.T) {
	inBubble(t, Options{CommitLatency: time.Second}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		w := cli.Watch(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
		<-w
		rev, err := c.Put("a", "1", id)
		expects(t, "put", err, nil)
		resp := <-w
		check(t, "revision", resp.Header.Revision, rev)
		check(t, "key", string(resp.Events[0].Kv.Key), "a")
		_, err = c.Put("b", "", 4242)
		expects(t, "put under no lease", err, errLeaseNotFound)
		_, err = c.Revoke(id)
		expects(t, "revoke", err, nil)
		check(t, "keys", len(c.Keys("")), 0)
		_, err = c.Revoke(id)
		expects(t, "revoke again", err, rpctypes.ErrGRPCLeaseNotFound)
		for _, k := range []string{"p/a", "p/b", "q"} {
			if _, err := c.Put(k, "", 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.DeletePrefix("p/"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Delete("none"); err != nil {
			t.Fatal(err)
		}
		check(t, "keys", string(c.Keys("")[0].Key), "q")
		expects(t, "compact", c.Compact(c.Revision()), nil)
		_, err = cli.Get(t.Context(), "q", clientv3.WithRev(2))
		expects(t, "read of the past", err, rpctypes.ErrCompacted)
	})
}

func TestOperator_NoSpaceRefusesPutsAndGrantsOnly(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		ctx, cli := t.Context(), c.Client(t)
		id := mustGrant(t, cli, 60)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		c.SetNoSpace(true)
		_, err := cli.Put(ctx, "b", "")
		expects(t, "put", err, rpctypes.ErrNoSpace)
		_, err = cli.Txn(ctx).Then(clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut("b", "")}, nil)).Commit()
		expects(t, "transaction", err, rpctypes.ErrNoSpace)
		_, err = cli.Grant(ctx, 60)
		expects(t, "grant", err, rpctypes.ErrNoSpace)
		check(t, "renewal", renewing(ctx, t, cli).renew(id), 60)
		_, err = cli.Delete(ctx, "a")
		expects(t, "delete", err, nil)
		_, err = cli.Revoke(ctx, id)
		expects(t, "revoke", err, nil)
		c.SetNoSpace(false)
		mustPut(t, cli, "b", "")
	})
}

func TestRollBack_BringsBackWhatWas(t *testing.T) {
	inBubble(t, Options{Members: 3}, func(t *testing.T, c *Cluster) {
		ctx, cli := t.Context(), c.Client(t)
		id := mustGrant(t, cli, 10)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		rev := mustPut(t, cli, "b", "1")
		before, err := cli.Get(ctx, "b")
		if err != nil {
			t.Fatal(err)
		}
		mustPut(t, cli, "b", "2")
		later := mustGrant(t, cli, 10)
		mustPut(t, cli, "c", "", clientv3.WithLease(later))
		if _, err := c.Revoke(id); err != nil {
			t.Fatal(err)
		}
		r := renewing(ctx, t, cli)
		r.renew(later)

		restored := time.Now()
		expects(t, "roll back", c.RollBackTo(rev), nil)
		if _, err := r.stream.Recv(); err == nil {
			t.Error("a stream outlived the cluster")
		}
		resp, err := cli.Get(ctx, "", clientv3.WithPrefix())
		if err != nil {
			t.Fatal(err)
		}
		check(t, "keys", fmt.Sprintf("%s %s", resp.Kvs[0].Key, resp.Kvs[1].Key), "a b")
		check(t, "value", string(resp.Kvs[1].Value), "1")
		check(t, "revision", resp.Header.Revision, rev)
		check(t, "cluster id", resp.Header.ClusterId, before.Header.ClusterId)
		check(t, "leases", fmt.Sprint(c.Leases()), fmt.Sprint([]clientv3.LeaseID{id}))
		at, ok := c.LeaseExpiry(id)
		check(t, "expiry", at, restored.Add(11*time.Second))
		check(t, "timed", ok, true)
		check(t, "renewal of what was granted later", renewing(ctx, t, cli).renew(later), 0)
		check(t, "next revision", mustPut(t, cli, "d", ""), rev+1)
		time.Sleep(12 * time.Second)
		check(t, "keys", len(c.Keys("a")), 0)
		if err := c.RollBackTo(1000); err == nil {
			t.Error("rolled back to the future")
		}
	})
}

func TestReplace_IsAnotherCluster(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t)
		id := mustGrant(t, cli, 60)
		mustPut(t, cli, "a", "", clientv3.WithLease(id))
		c.Replace(42)
		resp, err := cli.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		check(t, "keys", len(resp.Kvs), 0)
		check(t, "revision", resp.Header.Revision, 1)
		check(t, "cluster id", resp.Header.ClusterId, 42)
		check(t, "leases", len(c.Leases()), 0)
		c.SetClusterID(43)
		resp, err = cli.Get(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		check(t, "cluster id", resp.Header.ClusterId, 43)
	})
}

func TestOnChange_IsCalledBeforeTheAnswer(t *testing.T) {
	inBubble(t, Options{CommitLatency: 5 * ms}, func(t *testing.T, c *Cluster) {
		var seen []string // written under the cluster's mutex, read after an answer
		c.OnChange(func(ch Change) {
			var line strings.Builder
			line.WriteString(fmt.Sprint(ch.Revision, ":"))
			for _, kv := range ch.Keys("line/") {
				line.WriteString(" " + string(kv.Key))
			}
			seen = append(seen, line.String())
		})
		cli := c.Client(t)
		mustPut(t, cli, "line/b", "")
		check(t, "changes", len(seen), 1)
		mustPut(t, cli, "line/a", "")
		_, _ = cli.Delete(t.Context(), "line/b")
		check(t, "changes", fmt.Sprint(seen), "[2: line/b 3: line/b line/a 4: line/a]")
		c.Revision()
	})
}

// etcd's own mutex, over clientv3's own watcher and keepalive, in a bubble.
func TestBubble_EtcdsOwnMutexWorks(t *testing.T) {
	inBubble(t, Options{Members: 3, Seed: 9, CommitLatency: 2 * ms}, func(t *testing.T, c *Cluster) {
		session := func() (*concurrency.Session, *concurrency.Mutex) {
			s, err := concurrency.NewSession(c.Client(t), concurrency.WithTTL(10))
			if err != nil {
				t.Fatal(err)
			}
			return s, concurrency.NewMutex(s, "lock")
		}
		_, one := session()
		other, two := session()
		if err := one.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		locked := make(chan error, 1)
		go func() { locked <- two.Lock(t.Context()) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		check(t, "in line", len(c.Keys("lock/")), 2)
		check(t, "unlock", one.Unlock(t.Context()), nil)
		check(t, "lock", <-locked, nil)
		check(t, "holder", c.Keys("lock/")[0].Lease, int64(other.Lease()))
	})
}
