// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Secured is a cluster under test with authentication on. It has the users "root", who may do everything, and "job",
// who may read and write what begins with "jobs/". Each has the own name as password.
type Secured struct {
	// Client makes a client of a user, of nobody if the name is empty. It is closed when the test ends.
	Client func(t *testing.T, name, password string) (*clientv3.Client, error)
	// TokenTTL is how long a token lives after its last use, to a second or two.
	TokenTTL time.Duration
}

// RunAuth checks what clients observe of authentication.
func RunAuth(t *testing.T, start func(*testing.T) Secured) {
	s := start(t)
	for _, b := range authBehaviours {
		t.Run(b.name, func(t *testing.T) { b.test(newUsers(t, s)) })
	}
}

// RunAuthInBubbles does the same, in bubbles.
func RunAuthInBubbles(t *testing.T, start func(*testing.T) Secured) {
	for _, b := range authBehaviours {
		t.Run(b.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { b.test(newUsers(t, start(t))) })
		})
	}
}

// users are the clients of one case; env's own is the job's.
type users struct {
	*env
	Secured
	root, job, nobody *clientv3.Client
}

func newUsers(t *testing.T, s Secured) *users {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	u := &users{env: &env{T: t, ctx: ctx, prefix: "jobs/"}, Secured: s}
	u.root = must(s.Client(t, "root", "root"))(u.env)
	u.job = must(s.Client(t, "job", "job"))(u.env)
	u.nobody = must(s.Client(t, "", ""))(u.env)
	u.cli = u.job
	return u
}

var authBehaviours = []struct {
	name string
	test func(*users)
}{
	{"NobodyMayDoNothing", func(u *users) {
		_, err := u.Client(u.T, "job", "wrong")
		fails(u.env, "wrong password", err, rpctypes.ErrAuthFailed)
		_, err = u.nobody.Get(u.ctx, "jobs/a")
		fails(u.env, "read", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.Put(u.ctx, "jobs/a", "")
		fails(u.env, "put", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.Grant(u.ctx, 60)
		fails(u.env, "grant", err, rpctypes.ErrUserEmpty)
		id := u.grant(60)
		_, err = u.nobody.Revoke(u.ctx, id)
		fails(u.env, "revoke", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.KeepAliveOnce(u.ctx, id)
		fails(u.env, "renewal", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.TimeToLive(u.ctx, id)
		fails(u.env, "time to live", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.MemberList(u.ctx)
		fails(u.env, "members", err, rpctypes.ErrUserEmpty)
		_, err = u.nobody.Status(u.ctx, u.nobody.Endpoints()[0])
		fails(u.env, "status", err, rpctypes.ErrUserEmpty)
	}},
	{"AUserKeepsToItsPrefix", func(u *users) {
		u.put("a", "")
		same(u.env, "own prefix", len(u.all().Kvs) > 0, true)
		for _, op := range []clientv3.Op{
			clientv3.OpGet("other"),
			clientv3.OpGet("jobs/", clientv3.WithFromKey()),
			clientv3.OpGet("job", clientv3.WithPrefix()),
			clientv3.OpPut("jobs", ""),
			clientv3.OpDelete("jobs", clientv3.WithPrefix()),
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Version("other"), "=", 0)}, nil, nil),
			clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpPut("other", "")}),
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpPut("other", "")})}, nil),
		} {
			_, err := u.job.Do(u.ctx, op)
			fails(u.env, "outside", err, rpctypes.ErrPermissionDenied)
		}
		_, err := u.job.Compact(u.ctx, 2)
		fails(u.env, "compaction", err, rpctypes.ErrPermissionDenied)
	}},
	{"WatchesOutsideAreRefused", func(u *users) {
		w := u.watching(u.ctx)
		w.create("", func(r *pb.WatchCreateRequest) { r.Key = []byte("other") })
		r := w.next()
		same(u.env, "refused", r.Created && r.Canceled, true)
		same(u.env, "id", r.WatchId, -1)
		same(u.env, "reason", r.CancelReason, rpctypes.ErrGRPCPermissionDenied.Error())
		w.create("*", withID(1))
		w.created(1)
	}},
	{"ALeaseWithAForeignKeyIsOutOfReach", func(u *users) {
		id := u.grant(60)
		r := u.renewing(u.ctx)
		r.send(id)
		same(u.env, "TTL", r.next().TTL, 60)
		must(u.root.Put(u.ctx, "other", "", clientv3.WithLease(id)))(u.env)
		_, err := u.job.Put(u.ctx, "jobs/a", "", clientv3.WithLease(id))
		fails(u.env, "put", err, rpctypes.ErrPermissionDenied)
		_, err = u.job.Revoke(u.ctx, id)
		fails(u.env, "revoke", err, rpctypes.ErrPermissionDenied)
		_, err = u.job.TimeToLive(u.ctx, id, clientv3.WithAttachedKeys())
		fails(u.env, "keys", err, rpctypes.ErrPermissionDenied)
		same(u.env, "term", must(u.job.TimeToLive(u.ctx, id))(u.env).GrantedTTL, 60)
		r.send(id)
		_, err = r.stream.Recv()
		fails(u.env, "renewal", rpctypes.Error(err), rpctypes.ErrPermissionDenied)
		must(u.root.Delete(u.ctx, "other"))(u.env)
		must(u.job.Revoke(u.ctx, id))(u.env)
	}},
	{"AnExpiredTokenIsReplacedExceptOnOpenStreams", func(u *users) {
		id := u.grant(60)
		r := u.renewing(u.ctx)
		r.send(id)
		r.next()
		w := u.watching(u.ctx)
		w.create("*", withID(1))
		w.created(1)
		u.sleep(u.TokenTTL + 3*time.Second)
		u.put("a", "") // with a new token
		same(u.env, "the watch goes on", w.events(1), "put:a")
		w.create("*", withID(2))
		same(u.env, "new watch", w.next().CancelReason, rpctypes.ErrGRPCInvalidAuthToken.Error())
		r.send(id)
		_, err := r.stream.Recv()
		fails(u.env, "renewal", rpctypes.Error(err), rpctypes.ErrInvalidAuthToken)
		r = u.renewing(u.ctx)
		r.send(id)
		same(u.env, "TTL over a new stream", r.next().TTL, 60)
	}},
}
