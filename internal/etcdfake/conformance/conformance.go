// SPDX-License-Identifier: Apache-2.0

// Package conformance says what clients observe of etcd, as one suite that passes on an embedded etcd and on the
// fake. A behaviour that a test of the SDK relies on belongs here, so that the fake cannot drift from the truth.
//
// The suite is written against etcd v3.7.3. It waits in real time where leases expire, some seconds altogether.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Subject is a cluster under test.
type Subject struct {
	// Client makes a client with default settings that is closed when the test ends.
	Client func(*testing.T) *clientv3.Client
	// MinTTL is the smallest term in seconds that leases are granted for.
	MinTTL int64
	// ProgressInterval is how often a silent watch reports its progress.
	ProgressInterval time.Duration
}

// limit bounds what the suite waits for: it is reached only when an answer never comes.
const limit = 30 * time.Second

// env is what one case works with: a client, and a prefix of its own for keys.
type env struct {
	*testing.T
	Subject
	cli    *clientv3.Client
	ctx    context.Context
	prefix string
}

type behaviour struct {
	name string
	test func(*env)
}

var groups = []struct {
	name string
	all  []behaviour
}{
	{"KV", kvBehaviours}, {"Txn", txnBehaviours}, {"Watch", watchBehaviours}, {"Lease", leaseBehaviours}, {"Admin", adminBehaviours},
}

// Run checks every behaviour on the one cluster that start returns.
func Run(t *testing.T, start func(*testing.T) Subject) {
	s := start(t)
	each(t, func(t *testing.T, check func(*testing.T, Subject)) { check(t, s) })
}

// RunInBubbles checks every behaviour in a synctest bubble of its own, on a cluster that start makes in it.
func RunInBubbles(t *testing.T, start func(*testing.T) Subject) {
	each(t, func(t *testing.T, check func(*testing.T, Subject)) {
		synctest.Test(t, func(t *testing.T) { check(t, start(t)) })
	})
}

func each(t *testing.T, run func(t *testing.T, check func(*testing.T, Subject))) {
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for i, b := range group.all {
				t.Run(b.name, func(t *testing.T) {
					run(t, func(t *testing.T, s Subject) {
						ctx, cancel := context.WithTimeout(t.Context(), limit)
						defer cancel()
						b.test(&env{T: t, Subject: s, cli: s.Client(t), ctx: ctx, prefix: fmt.Sprintf("%s-%d/", group.name, i)})
					})
				})
			}
		})
	}
}

// key names a key of this case.
func (e *env) key(name string) string { return e.prefix + name }

// short takes the prefix of the case off.
func (e *env) short(key []byte) string { return strings.TrimPrefix(string(key), e.prefix) }

func (e *env) put(name, value string, opts ...clientv3.OpOption) *clientv3.PutResponse {
	e.Helper()
	return must(e.cli.Put(e.ctx, e.key(name), value, opts...))(e)
}

func (e *env) get(name string, opts ...clientv3.OpOption) *clientv3.GetResponse {
	e.Helper()
	return must(e.cli.Get(e.ctx, e.key(name), opts...))(e)
}

// all reads every key of the case.
func (e *env) all(opts ...clientv3.OpOption) *clientv3.GetResponse {
	e.Helper()
	return e.get("", append([]clientv3.OpOption{clientv3.WithPrefix()}, opts...)...)
}

func (e *env) delete(name string, opts ...clientv3.OpOption) *clientv3.DeleteResponse {
	e.Helper()
	return must(e.cli.Delete(e.ctx, e.key(name), opts...))(e)
}

func (e *env) txn(cmps []clientv3.Cmp, then, otherwise []clientv3.Op) *clientv3.TxnResponse {
	e.Helper()
	return must(e.cli.Txn(e.ctx).If(cmps...).Then(then...).Else(otherwise...).Commit())(e)
}

func (e *env) grant(ttl int64) clientv3.LeaseID {
	e.Helper()
	return must(e.cli.Grant(e.ctx, ttl))(e).ID
}

// names lists keys without the prefix of the case.
func (e *env) names(kvs []*mvccpb.KeyValue) string {
	var names []string
	for _, kv := range kvs {
		names = append(names, e.short(kv.Key))
	}
	return strings.Join(names, " ")
}

// revision is of the store, now.
func (e *env) revision() int64 {
	e.Helper()
	return e.get("no such key").Header.Revision
}

func must[T any](v T, err error) func(*env) T {
	return func(e *env) T {
		e.Helper()
		if err != nil {
			e.Fatal(err)
		}
		return v
	}
}

func same[T comparable](e *env, what string, got, want T) {
	e.Helper()
	if got != want {
		e.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func fails(e *env, what string, err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

// watching is a raw watch stream.
type watching struct {
	*env
	stream pb.Watch_WatchClient
	got    chan *pb.WatchResponse
}

func (e *env) watching(ctx context.Context) *watching {
	e.Helper()
	w := &watching{env: e, got: make(chan *pb.WatchResponse, 128)}
	w.stream = must(pb.NewWatchClient(e.cli.ActiveConnection()).Watch(ctx))(e)
	go func() {
		defer close(w.got)
		for {
			r, err := w.stream.Recv()
			if err != nil {
				return
			}
			w.got <- r
		}
	}()
	return w
}

func (w *watching) send(r *pb.WatchRequest) {
	w.Helper()
	if err := w.stream.Send(r); err != nil {
		w.Fatal(err)
	}
}

// create asks for a watch on a key, or on all keys of the case if name is "*".
func (w *watching) create(name string, change ...func(*pb.WatchCreateRequest)) {
	w.Helper()
	r := &pb.WatchCreateRequest{Key: []byte(w.key(name))}
	if name == "*" {
		r.Key, r.RangeEnd = []byte(w.prefix), []byte(clientv3.GetPrefixRangeEnd(w.prefix))
	}
	for _, c := range change {
		c(r)
	}
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: r}})
}

func (w *watching) cancel(id int64) {
	w.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CancelRequest{CancelRequest: &pb.WatchCancelRequest{WatchId: id}}})
}

func (w *watching) askProgress() {
	w.Helper()
	w.send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}})
}

func (w *watching) next() *pb.WatchResponse {
	w.Helper()
	select {
	case r, ok := <-w.got:
		if !ok {
			w.Fatal("the watch stream ended")
		}
		return r
	case <-w.ctx.Done():
		w.Fatal("nothing more came from the watch stream")
		return nil
	}
}

// created takes the notice that a watch was created.
func (w *watching) created(id int64) *pb.WatchResponse {
	w.Helper()
	r := w.next()
	if !r.Created || r.Canceled || r.WatchId != id || len(r.Events) != 0 {
		w.Fatalf("got %v, want the notice that watch %d was created", r, id)
	}
	return r
}

// events takes answers until n events came, and writes them as "put:a delete:b".
func (w *watching) events(n int) string {
	w.Helper()
	var out []string
	for len(out) < n {
		r := w.next()
		if r.Created || r.Canceled {
			w.Fatalf("got %v, want events", r)
		}
		out = append(out, w.text(r)...)
	}
	return strings.Join(out, " ")
}

func (w *watching) text(r *pb.WatchResponse) []string {
	var out []string
	for _, ev := range r.Events {
		out = append(out, strings.ToLower(ev.Type.String())+":"+w.short(ev.Kv.Key))
	}
	return out
}

// nothing checks that a marker key written now is the next thing a watch on all keys tells.
func (w *watching) nothing(id int64) {
	w.Helper()
	w.put("marker", "")
	r := w.next()
	if got := w.text(r); r.WatchId != id || !slices.Equal(got, []string{"put:marker"}) {
		w.Errorf("got %v, want nothing but the marker from watch %d", r, id)
	}
}

func withID(id int64) func(*pb.WatchCreateRequest) {
	return func(r *pb.WatchCreateRequest) { r.WatchId = id }
}

func from(rev int64) func(*pb.WatchCreateRequest) {
	return func(r *pb.WatchCreateRequest) { r.StartRevision = rev }
}
