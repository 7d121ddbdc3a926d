// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestAuth_UsersKeepToTheirPrefixes(t *testing.T) {
	auth := &Auth{Users: map[string]User{"root": {Password: "r"}, "job": {Password: "j", Prefixes: []string{"jobs/"}}}, TokenTTL: 5 * time.Second}
	inBubble(t, Options{Auth: auth}, func(t *testing.T, c *Cluster) {
		ctx := t.Context()
		as := func(name, password string) func(*clientv3.Config) {
			return func(cfg *clientv3.Config) { cfg.Username, cfg.Password = name, password }
		}
		cfg := c.NewHost().Config()
		as("job", "wrong")(&cfg)
		_, err := clientv3.New(cfg)
		expects(t, "wrong password", err, rpctypes.ErrAuthFailed)

		nobody := c.Client(t)
		_, err = nobody.Get(ctx, "jobs/a")
		expects(t, "without a user", err, rpctypes.ErrUserEmpty)
		_, err = nobody.Grant(ctx, 60)
		expects(t, "grant without a user", err, rpctypes.ErrUserEmpty)

		root, job := c.Client(t, as("root", "r")), c.Client(t, as("job", "j"))
		mustPut(t, root, "other", "")
		id := mustGrant(t, job, 60)
		mustPut(t, job, "jobs/a", "", clientv3.WithLease(id))
		time.Sleep(time.Minute / 2) // the token expires, and the client gets another
		_, err = job.Get(ctx, "jobs/", clientv3.WithPrefix())
		expects(t, "own prefix", err, nil)
		for _, op := range []clientv3.Op{
			clientv3.OpGet("other"), clientv3.OpGet("jobs/", clientv3.WithFromKey()), clientv3.OpPut("job", ""), clientv3.OpDelete("j", clientv3.WithPrefix()),
			clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpTxn(nil, nil, []clientv3.Op{clientv3.OpPut("other", "")})}, nil),
		} {
			_, err = job.Do(ctx, op)
			expects(t, "outside", err, rpctypes.ErrPermissionDenied)
		}
		w := job.Watch(ctx, "other")
		resp := <-w
		check(t, "watch outside", resp.Err().Error(), rpctypes.ErrGRPCPermissionDenied.Error())
		_, err = job.Compact(ctx, 2)
		expects(t, "compaction", err, rpctypes.ErrPermissionDenied)

		// Renewing needs the right to write every key of the lease.
		check(t, "TTL", keepAlive(t, job, id), 60)
		mustPut(t, root, "other", "", clientv3.WithLease(id))
		r := renewing(ctx, t, job)
		r.send(id)
		_, err = r.stream.Recv()
		expects(t, "renewal", rpctypes.Error(err), rpctypes.ErrPermissionDenied)

		s, err := pb.NewWatchClient(job.ActiveConnection()).Watch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		create := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte("jobs/a")}}}
		for _, reason := range []string{"", rpctypes.ErrGRPCInvalidAuthToken.Error()} {
			if err := s.Send(create); err != nil {
				t.Fatal(err)
			}
			got, err := s.Recv()
			if err != nil {
				t.Fatal(err)
			}
			check(t, "reason", got.CancelReason, reason)
			c.ExpireTokens() // the stream keeps the token that it was opened with
		}
	})
}

func keepAlive(t *testing.T, cli *clientv3.Client, id clientv3.LeaseID) int64 {
	t.Helper()
	resp, err := cli.KeepAliveOnce(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return resp.TTL
}
