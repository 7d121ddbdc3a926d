// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var adminBehaviours = []behaviour{
	{"StatusNamesVersionLeaderAndTerm", func(e *env) {
		r := must(e.cli.Status(e.ctx, e.cli.Endpoints()[0]))(e)
		if !strings.HasPrefix(r.Version, "3.7.") {
			e.Errorf("version %q", r.Version)
		}
		if r.Leader == 0 || r.RaftTerm == 0 || r.Header.MemberId == 0 || r.RaftIndex == 0 || len(r.Errors) != 0 {
			e.Errorf("status %v lacks something", r)
		}
		same(e, "revision", r.Header.Revision, e.revision())
	}},
	{"MembersAreListed", func(e *env) {
		r := must(e.cli.MemberList(e.ctx))(e)
		status := must(e.cli.Status(e.ctx, e.cli.Endpoints()[0]))(e)
		found := false
		for _, m := range r.Members {
			found = found || m.ID == status.Leader
			if m.Name == "" || len(m.ClientURLs) == 0 {
				e.Errorf("member %v lacks something", m)
			}
		}
		same(e, "leader listed", found, true)
	}},
	{"HistoryBelowACompactionIsGone", func(e *env) {
		first := e.put("a", "1").Header.Revision
		rev := e.put("a", "2").Header.Revision
		e.put("a", "3")
		_, err := e.cli.Compact(e.ctx, rev+100)
		fails(e, "compaction of the future", err, rpctypes.ErrFutureRev)
		must(e.cli.Compact(e.ctx, rev))(e)
		_, err = e.cli.Compact(e.ctx, rev)
		fails(e, "compaction once more", err, rpctypes.ErrCompacted)
		_, err = e.cli.Get(e.ctx, e.key("a"), clientv3.WithRev(first))
		fails(e, "read below", err, rpctypes.ErrCompacted)
		same(e, "read at", string(e.get("a", clientv3.WithRev(rev)).Kvs[0].Value), "2")
		_, err = e.cli.Txn(e.ctx).Then(clientv3.OpPut(e.key("b"), ""), clientv3.OpGet(e.key("a"), clientv3.WithRev(first))).Commit()
		fails(e, "read below in a transaction", err, rpctypes.ErrCompacted)
	}},
	{"StreamsMayRequireALeader", func(e *env) {
		w := e.watching(clientv3.WithRequireLeader(e.ctx))
		w.create("*", withID(1))
		w.created(1)
		id := e.grant(60)
		r := e.renewing(clientv3.WithRequireLeader(e.ctx))
		r.send(id)
		same(e, "TTL", r.next().TTL, 60)
	}},
	{"AuthenticationIsOff", func(e *env) {
		_, err := pb.NewAuthClient(e.cli.ActiveConnection()).Authenticate(e.ctx, &pb.AuthenticateRequest{Name: "root", Password: "x"})
		fails(e, "authenticate", rpctypes.Error(err), rpctypes.ErrAuthNotEnabled)
	}},
}
