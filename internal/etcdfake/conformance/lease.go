// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewing is a raw keepalive stream.
type renewing struct {
	*env
	stream pb.Lease_LeaseKeepAliveClient
}

func (e *env) renewing(ctx context.Context) *renewing {
	e.Helper()
	return &renewing{e, must(pb.NewLeaseClient(e.cli.ActiveConnection()).LeaseKeepAlive(ctx))(e)}
}

func (r *renewing) send(id clientv3.LeaseID) {
	r.Helper()
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		r.Fatal(err)
	}
}

func (r *renewing) next() *pb.LeaseKeepAliveResponse {
	r.Helper()
	return must(r.stream.Recv())(r.env)
}

// leased puts a key under a lease of the smallest term, again if this machine was so slow that the lease had expired, and returns
// when the lease was asked for.
func (e *env) leased(key string) (id clientv3.LeaseID, asked time.Time) {
	e.Helper()
	for {
		asked = time.Now()
		id = e.grant(e.MinTTL)
		_, err := e.cli.Put(e.ctx, e.key(key), "", clientv3.WithLease(id))
		if err == nil {
			return id, asked
		}
		fails(e, "put", err, rpctypes.ErrLeaseNotFound)
		if e.Failed() {
			e.FailNow()
		}
	}
}

// sleep lets the cluster's own clock run.
func (e *env) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-e.ctx.Done():
	}
}

// renewsInTime renews a lease for one and a half terms and checks that it lives. It reports false if the machine was
// too slow to tell.
func (e *env) renewsInTime(key string) bool {
	last := time.Now()
	id := e.grant(e.MinTTL)
	e.put(key, "", clientv3.WithLease(id))
	r := e.renewing(e.ctx)
	for range 6 {
		e.sleep(e.term() / 4)
		sent := time.Now()
		r.send(id)
		got := r.next().TTL
		if time.Since(last) >= e.term() {
			return false
		}
		last = sent
		same(e, "TTL", got, e.MinTTL)
	}
	alive := len(e.get(key).Kvs)
	if time.Since(last) >= e.term() {
		return false
	}
	same(e, "keys", alive, 1)
	must(e.cli.Revoke(e.ctx, id))(e)
	return true
}

func (e *env) term() time.Duration { return time.Duration(e.MinTTL) * time.Second }

var leaseBehaviours = []behaviour{
	{"SmallTermsAreRaised", func(e *env) {
		r := must(e.cli.Grant(e.ctx, 1))(e)
		same(e, "smallest term", r.TTL, e.MinTTL)
		same(e, "larger term", must(e.cli.Grant(e.ctx, e.MinTTL+5))(e).TTL, e.MinTTL+5)
		same(e, "no term", must(e.cli.Grant(e.ctx, 0))(e).TTL, e.MinTTL)
		if r.ID <= 0 {
			e.Errorf("id %d is not positive", r.ID)
		}
	}},
	{"GrantsThatCannotBeAreRefused", func(e *env) {
		lc := pb.NewLeaseClient(e.cli.ActiveConnection())
		r, err := lc.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{ID: 4711, TTL: 60})
		same(e, "chosen id", must(r, err)(e).ID, 4711)
		_, err = lc.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{ID: 4711, TTL: 60})
		fails(e, "id in use", rpctypes.Error(err), rpctypes.ErrLeaseExist)
		_, err = e.cli.Grant(e.ctx, 9000000001)
		fails(e, "term too large", err, rpctypes.ErrLeaseTTLTooLarge)
		must(e.cli.Revoke(e.ctx, 4711))(e)
		r, err = lc.LeaseGrant(e.ctx, &pb.LeaseGrantRequest{ID: 4711, TTL: 60})
		same(e, "id free again", must(r, err)(e).ID, 4711)
	}},
	{"GrantsAndEmptyRevokesTakeNoRevision", func(e *env) {
		rev := e.revision()
		id := e.grant(60)
		same(e, "revoke", must(e.cli.Revoke(e.ctx, id))(e).Header.Revision, rev)
	}},
	{"UnknownLeasesAreTold", func(e *env) {
		_, err := e.cli.Revoke(e.ctx, 4242)
		fails(e, "revoke", err, rpctypes.ErrLeaseNotFound)
		same(e, "time to live", must(e.cli.TimeToLive(e.ctx, 4242))(e).TTL, -1)
		_, err = e.cli.KeepAliveOnce(e.ctx, 4242)
		fails(e, "keepalive", err, rpctypes.ErrLeaseNotFound)
	}},
	{"RenewalsAreAnsweredOneByOneInOrder", func(e *env) {
		a, b := e.grant(60), e.grant(30)
		r := e.renewing(e.ctx)
		order := []clientv3.LeaseID{a, b, 4242, a, a, b}
		ttls := []int64{60, 30, 0, 60, 60, 30}
		for _, id := range order {
			r.send(id)
		}
		for i, id := range order {
			got := r.next()
			same(e, fmt.Sprintf("lease of answer %d", i), got.ID, int64(id))
			same(e, fmt.Sprintf("TTL of answer %d", i), got.TTL, ttls[i])
			if got.Header.Revision == 0 || got.Header.ClusterId == 0 {
				e.Errorf("header %v lacks something", got.Header)
			}
		}
	}},
	{"AClosedStreamEndsWithoutAnError", func(e *env) {
		r := e.renewing(e.ctx)
		r.send(4242)
		r.next()
		must(struct{}{}, r.stream.CloseSend())(e)
		if _, err := r.stream.Recv(); err == nil || err.Error() != "EOF" {
			e.Errorf("got %v, want EOF", err)
		}
	}},
	{"KeysGoBetweenOneTermAndASecondLater", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1))
		w.created(1)
		id, asked := e.leased("a")
		w.events(1)
		same(e, "events", w.events(1), "delete:a")
		if took := time.Since(asked); took < e.term() {
			e.Errorf("the key went %v after the grant was asked for, before its term of %v", took, e.term())
		}
		r := e.renewing(e.ctx)
		r.send(id)
		same(e, "renewal of what is gone", r.next().TTL, 0)
		same(e, "time to live", must(e.cli.TimeToLive(e.ctx, id))(e).TTL, -1)
		_, err := e.cli.Put(e.ctx, e.key("b"), "", clientv3.WithLease(id))
		fails(e, "put", err, rpctypes.ErrLeaseNotFound)
	}},
	{"ARenewalOfAnExpiredLeaseWaitsForItsRevocation", func(e *env) {
		id, _ := e.leased("a")
		r := e.renewing(e.ctx)
		e.sleep(e.term() + 5*time.Millisecond)
		r.send(id)
		same(e, "TTL", r.next().TTL, 0)
		same(e, "keys", len(e.all().Kvs), 0)
	}},
	{"RenewalsMoveTheExpiry", func(e *env) {
		for attempt := range 10 {
			if e.renewsInTime(fmt.Sprint(attempt)) {
				return
			}
		}
		e.Error("this machine could not renew a lease in time ten times")
	}},
	{"ARevokeDeletesAllKeysAtOneRevision", func(e *env) {
		id, other := e.grant(60), e.grant(60)
		for _, k := range []string{"c", "a", "b"} {
			e.put(k, "", clientv3.WithLease(id))
		}
		e.put("other", "", clientv3.WithLease(other))
		e.put("none", "")
		w := e.watching(e.ctx)
		w.create("*", withID(1))
		w.created(1)
		rev := e.revision()
		same(e, "header revision", must(e.cli.Revoke(e.ctx, id))(e).Header.Revision, rev+1)
		r := w.next()
		same(e, "events", fmt.Sprint(w.text(r)), "[delete:a delete:b delete:c]")
		same(e, "keys", e.names(e.all().Kvs), "none other")
		k := e.renewing(e.ctx)
		k.send(id)
		same(e, "renewal", k.next().TTL, 0)
	}},
	{"KeysBelongToTheLeaseOfTheirLastPut", func(e *env) {
		one, two := e.grant(60), e.grant(60)
		e.put("a", "", clientv3.WithLease(one))
		e.put("a", "", clientv3.WithLease(two))
		e.put("b", "", clientv3.WithLease(one))
		e.put("b", "")
		e.put("c", "", clientv3.WithLease(one))
		e.delete("c")
		e.put("c", "")
		must(e.cli.Revoke(e.ctx, one))(e)
		same(e, "keys", e.names(e.all().Kvs), "a b c")
		must(e.cli.Revoke(e.ctx, two))(e)
		same(e, "keys", e.names(e.all().Kvs), "b c")
	}},
	{"TimeToLiveTellsTermAndKeys", func(e *env) {
		id := e.grant(60)
		e.put("b", "", clientv3.WithLease(id))
		e.put("a", "", clientv3.WithLease(id))
		r := must(e.cli.TimeToLive(e.ctx, id, clientv3.WithAttachedKeys()))(e)
		same(e, "granted", r.GrantedTTL, 60)
		if r.TTL < 55 || r.TTL > 60 {
			e.Errorf("TTL %d of 60", r.TTL)
		}
		var keys []string
		for _, k := range r.Keys {
			keys = append(keys, e.short(k))
		}
		slices.Sort(keys)
		same(e, "keys", fmt.Sprint(keys), "[a b]")
		same(e, "keys not asked for", len(must(e.cli.TimeToLive(e.ctx, id))(e).Keys), 0)
	}},
	{"LeasesAreListed", func(e *env) {
		id := e.grant(60)
		has := func() bool {
			return slices.Contains(must(e.cli.Leases(e.ctx))(e).Leases, clientv3.LeaseStatus{ID: id})
		}
		same(e, "listed", has(), true)
		must(e.cli.Revoke(e.ctx, id))(e)
		same(e, "listed after a revoke", has(), false)
	}},
}
