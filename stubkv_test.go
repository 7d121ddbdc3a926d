// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/etcdfake"
)

// A desk is a committer whose transactions arrive at the test, which answers them when and as it likes. It lives in a bubble.
type desk struct {
	*testing.T
	c       *committer
	seen    []*arrival // in order; guarded by c.mu, as are the answers
	answers map[string][]deskAnswer
}

// An arrival is a transaction that the committer has sent.
type arrival struct {
	writes []string // the keys that its writes put, or that its reads get
	solo   bool     // not nested: one write alone
	at     time.Time
	ctx    context.Context
	reply  chan deskReply
}

type deskReply struct {
	rev  int64
	err  error
	lost bool // the comparisons failed
}

// A deskAnswer is what a write was told.
type deskAnswer struct {
	resp *clientv3.TxnResponse
	err  error
}

func onDesk(t *testing.T, reads bool, f func(d *desk)) {
	synctest.Test(t, func(t *testing.T) {
		cli := etcdfake.NewForTest(t, etcdfake.Options{}).Client(t) // only its connection is used
		d := &desk{T: t, answers: make(map[string][]deskAnswer)}
		cli.KV = &stubKV{desk: d, KV: cli.KV}
		e := &engine{client: cli, mark: &mark{}, clk: clock.New(), journal: newJournal(zap.NewNop())}
		e.ctx, e.cancel = context.WithCancel(t.Context())
		e.keeper = newKeeper(e)
		d.c = newCommitter(e, reads)
		defer func() { // also when the test gives up
			e.cancel()
			d.c.close()
			e.wg.Wait()
		}()
		f(d)
		d.c.close()
		synctest.Wait()
		if len(d.c.aloft) != 0 || d.c.fresh != 0 || len(d.c.queue) != 0 {
			t.Errorf("left after close: %d flights, %d of them fresh, %d writes", len(d.c.aloft), d.c.fresh, len(d.c.queue))
		}
	})
}

// submit sends a write of key on a line.
func (d *desk) submit(line, key string) *write {
	w := &write{
		line: line, size: 100,
		cmps:   []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
		then:   []clientv3.Op{clientv3.OpPut(key, "v")},
		wanted: func() bool { return true },
	}
	if d.c.reads {
		w.cmps, w.then = nil, []clientv3.Op{clientv3.OpGet(key)}
	}
	return d.send(key, w)
}

func (d *desk) send(key string, w *write) *write {
	w.done = func(resp *clientv3.TxnResponse, err error) {
		d.c.mu.Lock() // an answer is given without any lock held
		defer d.c.mu.Unlock()
		d.answers[key] = append(d.answers[key], deskAnswer{resp, err})
	}
	d.c.submit(w)
	synctest.Wait()
	return w
}

// arrived are the transactions that the committer has sent.
func (d *desk) arrived() []*arrival {
	synctest.Wait()
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	return slices.Clone(d.seen)
}

// flights are the writes of each arrived transaction, as "a b | c".
func (d *desk) flights() string {
	var out []string
	for _, a := range d.arrived() {
		out = append(out, strings.Join(a.writes, " "))
	}
	return strings.Join(out, " | ")
}

func (d *desk) wantFlights(want string) {
	d.Helper()
	if got := d.flights(); got != want {
		d.Fatalf("flights %q, want %q", got, want)
	}
}

// wantSizes checks how many writes each arrived transaction has.
func (d *desk) wantSizes(want ...int) {
	d.Helper()
	var got []int
	for _, a := range d.arrived() {
		got = append(got, len(a.writes))
	}
	if !slices.Equal(got, want) {
		d.Fatalf("transactions of %v writes, want %v", got, want)
	}
}

// answer answers the i-th transaction as applied at a revision.
func (d *desk) answer(i int, rev int64) {
	d.reply(i, deskReply{rev: rev})
	synctest.Wait()
}

// fail answers the i-th transaction with an error.
func (d *desk) fail(i int, err error) {
	d.reply(i, deskReply{err: err})
	synctest.Wait()
}

func (d *desk) reply(i int, r deskReply) {
	all := d.arrived()
	if i >= len(all) {
		d.Fatalf("%d transactions were sent, want more", len(all))
	}
	all[i].reply <- r
}

// wantAnswer checks that the write of key was answered once, as applied at a revision.
func (d *desk) wantAnswer(key string, rev int64) {
	d.Helper()
	synctest.Wait()
	got := d.answers[key]
	if len(got) != 1 || got[0].err != nil || got[0].resp.Header.GetRevision() != rev {
		d.Errorf("%s was answered with %+v, want one answer of revision %d", key, got, rev)
	}
}

func (d *desk) wantNoAnswer(key string) {
	d.Helper()
	synctest.Wait()
	if got := d.answers[key]; len(got) != 0 {
		d.Errorf("%s was answered with %+v, want nothing yet", key, got)
	}
}

func (d *desk) wantOutcome(w *write, settled, applied bool) {
	d.Helper()
	if s, a := d.c.outcome(w); s != settled || a != applied {
		d.Errorf("settled %v, applied %v; want %v, %v", s, a, settled, applied)
	}
}

// A stubKV hands transactions to its desk.
type stubKV struct {
	clientv3.KV
	desk *desk
}

func (kv *stubKV) Txn(ctx context.Context) clientv3.Txn { return &stubTxn{desk: kv.desk, ctx: ctx} }

type stubTxn struct {
	desk      *desk
	ctx       context.Context
	then, els []clientv3.Op
	cmps      []clientv3.Cmp
}

func (x *stubTxn) If(cmps ...clientv3.Cmp) clientv3.Txn { x.cmps = cmps; return x }
func (x *stubTxn) Then(ops ...clientv3.Op) clientv3.Txn { x.then = ops; return x }
func (x *stubTxn) Else(ops ...clientv3.Op) clientv3.Txn { x.els = ops; return x }

func (x *stubTxn) Commit() (*clientv3.TxnResponse, error) {
	a := &arrival{at: time.Now(), ctx: x.ctx, reply: make(chan deskReply)}
	for _, op := range x.then {
		if !op.IsTxn() {
			a.writes = append(a.writes, string(op.KeyBytes()))
			a.solo = len(x.cmps) > 0
			continue
		}
		_, then, _ := op.Txn()
		a.writes = append(a.writes, string(then[0].KeyBytes()))
	}
	x.desk.c.mu.Lock()
	x.desk.seen = append(x.desk.seen, a)
	x.desk.c.mu.Unlock()
	select {
	case r := <-a.reply:
		if r.err != nil {
			return nil, r.err
		}
		resp := x.applied(r.rev)
		resp.Succeeded = !r.lost
		return resp, nil
	case <-x.ctx.Done():
		return nil, clientv3.ContextError(x.ctx, x.ctx.Err())
	}
}

// applied answers each operation with its key, so that a test can see who was given which.
func (x *stubTxn) applied(rev int64) *clientv3.TxnResponse {
	resp := &clientv3.TxnResponse{Header: &pb.ResponseHeader{ClusterId: clusterA, Revision: rev}, Succeeded: true}
	for _, op := range x.then {
		var one *pb.ResponseOp
		switch {
		case op.IsTxn():
			_, then, _ := op.Txn()
			inner := &pb.TxnResponse{Succeeded: true, Responses: []*pb.ResponseOp{echo(then[0])}}
			one = &pb.ResponseOp{Response: &pb.ResponseOp_ResponseTxn{ResponseTxn: inner}}
		default:
			one = echo(op)
		}
		resp.Responses = append(resp.Responses, one)
	}
	return resp
}

func echo(op clientv3.Op) *pb.ResponseOp {
	kv := &mvccpb.KeyValue{Key: op.KeyBytes()}
	return &pb.ResponseOp{Response: &pb.ResponseOp_ResponseRange{ResponseRange: &pb.RangeResponse{Kvs: []*mvccpb.KeyValue{kv}, Count: 1}}}
}
