// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var watchBehaviours = []behaviour{
	{"TheCreatedNoticeComesFirstAndBoundsWhatIsSeen", func(e *env) {
		w := e.watching(e.ctx)
		before := e.put("before", "").Header.Revision
		w.create("*", withID(7))
		same(e, "revision", w.created(7).Header.Revision, before)
		e.put("a", "")
		e.put("b", "")
		e.delete("a")
		same(e, "events", w.events(3), "put:a put:b delete:a")
	}},
	{"ClientsMayChooseIDs", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(2))
		w.created(2)
		w.create("*", withID(2))
		r := w.next()
		same(e, "created", r.Created, true)
		same(e, "cancelled", r.Canceled, true)
		same(e, "id", r.WatchId, -1)
		same(e, "reason", r.CancelReason, "mvcc: duplicate watch ID provided on the WatchStream")
		w.create("x")
		w.created(0)
		w.create("x")
		w.created(1)
		w.create("x")
		w.created(3)
		w.nothing(2)
	}},
	{"IDsAreFreeAfterACancel", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(5))
		w.created(5)
		w.cancel(5)
		r := w.next()
		same(e, "cancelled", r.Canceled, true)
		same(e, "created", r.Created, false)
		same(e, "id", r.WatchId, 5)
		same(e, "reason", r.CancelReason, "")
		e.put("unseen", "")
		w.cancel(5) // unknown now: no answer
		w.create("*", withID(5))
		w.created(5)
		w.nothing(5)
	}},
	{"ThePastIsReplayed", func(e *env) {
		first := e.put("a", "1").Header.Revision
		e.put("b", "")
		e.delete("a")
		w := e.watching(e.ctx)
		w.create("*", withID(1), from(first+1))
		w.created(1)
		same(e, "events", w.events(2), "put:b delete:a")
		w.nothing(1)
	}},
	{"TheFutureIsWaitedFor", func(e *env) {
		rev := e.revision()
		w := e.watching(e.ctx)
		w.create("*", withID(1), from(rev+3))
		w.created(1)
		e.put("a", "")
		e.put("b", "")
		e.put("c", "")
		same(e, "events", w.events(1), "put:c")
	}},
	{"OneRevisionIsOneAnswer", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1))
		w.created(1)
		e.txn(nil, ops(clientv3.OpPut(e.key("b"), ""), clientv3.OpPut(e.key("a"), ""), clientv3.OpPut(e.key("c"), "")), nil)
		r := w.next()
		same(e, "events", fmt.Sprint(w.text(r)), "[put:b put:a put:c]")
		rev := e.delete("", clientv3.WithPrefix()).Header.Revision
		r = w.next()
		same(e, "events", fmt.Sprint(w.text(r)), "[delete:a delete:b delete:c]")
		same(e, "header revision", r.Header.Revision, rev)
		for _, ev := range r.Events {
			same(e, "mod revision", ev.Kv.ModRevision, rev)
			same(e, "create revision of a delete", ev.Kv.CreateRevision, 0)
			same(e, "lease of a delete", ev.Kv.Lease, 0)
		}
	}},
	{"EveryWatchOfAStreamIsTold", func(e *env) {
		w := e.watching(e.ctx)
		w.create("a", withID(1))
		w.created(1)
		w.create("*", withID(2))
		w.created(2)
		e.put("a", "")
		got := map[int64]string{}
		for range 2 {
			r := w.next()
			got[r.WatchId] = fmt.Sprint(w.text(r))
		}
		same(e, "answers", fmt.Sprint(got), "map[1:[put:a] 2:[put:a]]")
		e.put("b", "")
		same(e, "the wider one", w.next().WatchId, 2)
	}},
	{"FiltersLeaveOutKinds", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1), func(r *pb.WatchCreateRequest) {
			r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NOPUT}
		})
		w.created(1)
		e.put("a", "")
		e.delete("a")
		same(e, "no puts", w.events(1), "delete:a")
		w.cancel(1)
		w.next()
		w.create("*", withID(2), func(r *pb.WatchCreateRequest) {
			r.Filters = []pb.WatchCreateRequest_FilterType{pb.WatchCreateRequest_NODELETE}
		})
		w.created(2)
		e.put("a", "")
		e.delete("a")
		e.put("b", "")
		same(e, "no deletes", w.events(2), "put:a put:b")
	}},
	{"PreviousKeyValuesComeOnRequest", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1), func(r *pb.WatchCreateRequest) { r.PrevKv = true })
		w.created(1)
		e.put("a", "1")
		e.put("a", "2")
		e.delete("a")
		prev := func() string { return string(w.next().Events[0].PrevKv.GetValue()) }
		same(e, "of a new key", prev(), "")
		same(e, "of an update", prev(), "1")
		same(e, "of a delete", prev(), "2")
	}},
	{"ProgressIsToldOnRequest", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1))
		w.created(1)
		rev := e.put("a", "").Header.Revision
		w.events(1)
		w.askProgress()
		r := w.next()
		same(e, "id", r.WatchId, -1)
		same(e, "events", len(r.Events), 0)
		same(e, "revision", r.Header.Revision, rev)
		// A watch that starts later has made no progress, and keeps the whole stream from telling any.
		w.create("x", withID(2), from(rev+100))
		w.created(2)
		w.askProgress()
		w.nothing(1)
	}},
	{"ProgressOfASilentWatchIsTold", func(e *env) {
		w := e.watching(e.ctx)
		w.create("*", withID(1), func(r *pb.WatchCreateRequest) { r.ProgressNotify = true })
		w.created(1)
		rev := e.revision()
		r := w.next()
		same(e, "id", r.WatchId, 1)
		same(e, "events", len(r.Events), 0)
		same(e, "revision", r.Header.Revision, rev)
	}},
	{"BadRangesAreRefused", func(e *env) {
		w := e.watching(e.ctx)
		w.create("b", func(r *pb.WatchCreateRequest) { r.RangeEnd = []byte(e.key("a")) })
		r := w.next()
		same(e, "cancelled", r.Canceled && r.Created, true)
		same(e, "reason", r.CancelReason, "mvcc: watcher range is empty")
		w.create("a", from(-1))
		r = w.next()
		same(e, "cancelled", r.Canceled && r.Created, true)
		same(e, "reason", r.CancelReason, rpctypes.ErrCompacted.Error())
	}},
	{"AWatchFromAKeyOnHasNoEnd", func(e *env) {
		w := e.watching(e.ctx)
		w.create("m", withID(1), func(r *pb.WatchCreateRequest) { r.RangeEnd = []byte{0} })
		w.created(1)
		e.put("a", "")
		e.put("z", "")
		same(e, "events", w.events(1), "put:z")
	}},
	{"ACompactedStartEndsTheWatchAndKeepsItsID", func(e *env) {
		first := e.put("a", "1").Header.Revision
		e.put("a", "2")
		rev := e.put("a", "3").Header.Revision
		must(e.cli.Compact(e.ctx, rev))(e)
		w := e.watching(e.ctx)
		w.create("*", withID(4), from(first))
		w.created(4)
		r := w.next()
		same(e, "cancelled", r.Canceled, true)
		same(e, "id", r.WatchId, 4)
		same(e, "compact revision", r.CompactRevision, rev)
		same(e, "header revision", r.Header.Revision, 0)
		w.create("*", withID(4))
		same(e, "taken", w.next().Canceled, true)
		w.cancel(4)
		same(e, "cancelled", w.next().Canceled, true)
		w.create("*", withID(4), from(rev))
		w.created(4)
		same(e, "events", w.events(1), "put:a")
	}},
	{"TheClientsWatcherSeesTheSame", func(e *env) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(e.ctx))
		defer cancel()
		ch := e.cli.Watch(ctx, e.prefix, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
		if r := <-ch; !r.Created {
			e.Fatalf("got %v, want the created notice", r)
		}
		e.put("a", "1")
		e.put("a", "2")
		r := <-ch
		same(e, "create", r.Events[0].IsCreate(), true)
		r = <-ch
		same(e, "previous", string(r.Events[0].PrevKv.GetValue()), "1")
		must(struct{}{}, e.cli.RequestProgress(ctx))(e)
		r = <-ch
		same(e, "progress", r.IsProgressNotify(), true)
		cancel()
		for r := range ch {
			same(e, "events after the end", len(r.Events), 0)
		}
	}},
	{"WatchesThatAreBehindCatchUp", func(e *env) {
		first := e.put("a", "").Header.Revision
		w := e.watching(e.ctx)
		for i := range int64(5) {
			w.create("a", withID(i+1), from(first))
			w.created(i + 1)
		}
		for range 5 {
			same(e, "events", fmt.Sprint(w.text(w.next())), "[put:a]")
		}
	}},
}
