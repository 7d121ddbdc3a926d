// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// Observe yields who leads: the present state at once, and then every change that it comes to see. Nobody leads: the zero
// Leader with a nil error. States are never older than those before; of changes in quick succession, some may be
// left out, but not the last. It survives compaction, reconnects and lost quorum, and needs no session.
//
// When ctx ends it yields ctx's error, once, and ends. It also ends, after yielding it, with an error that waiting does
// not help: an invalid name, no permission, a closed etcd client, or [ErrRolledBack].
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		err := e.observe(ctx, func(l Leader, _ int64) bool { return yield(l, nil) })
		if err != nil {
			yield(Leader{}, fmt.Errorf("leasehold: observe %s: %w", quoteBounded(e.name), err))
		}
	}
}

// observe calls yield with each state and with the revision as of which it is known, until yield returns false, which
// ends observe with nil.
func (e *Election) observe(ctx context.Context, yield func(l Leader, revision int64) bool) error {
	if err := checkName(e.name); err != nil {
		return err
	}
	engine, err := useEngine(e.etcd, e.cfg.Logger)
	if err != nil {
		return err
	}
	defer engine.leave()
	o := observation{election: e, engine: engine, yield: yield}
	return o.run(ctx)
}

// An observation is one run of Observe, in its caller's goroutine. It reads the line and follows it with etcd's own
// watch from the revision after. The watch may be silent for reasons that it does not know of (a dead member), so
// the head of the line is read again from time to time, and a watch that has missed something is replaced.
//
// Only reads decide that waiting does not help: they tell a refusal by its code. Of a watch that is refused or ended,
// etcd's client gives little more than the text.
type observation struct {
	election *Election
	engine   *engine
	yield    func(Leader, int64) bool

	revision int64                       // the line is known as of here; it never falls
	line     map[string]*mvccpb.KeyValue // the keys of the line
	last     Leader                      // as yielded
	begun    bool                        // something was yielded
}

// observeAgain is how often the head of the line is read although the watch tells nothing; jittered by up to a half.
const observeAgain = 4 * time.Second

var (
	errStopped = errors.New("leasehold: the observer has stopped")   // the loop over Observe was left
	errBehind  = errors.New("leasehold: the watch missed something") // reading the line again catches up
)

func (o *observation) run(ctx context.Context) error {
	for try := 0; ; try++ {
		began := time.Now()
		err := o.read(ctx)
		refused := err != nil && judge(err) == outcomeRefused
		if err == nil {
			err = o.follow(ctx)
		}
		switch {
		case errors.Is(err, errStopped):
			return nil
		case ctx.Err() != nil:
			return ending(ctx)
		case refused, errors.Is(err, ErrClosed), errors.Is(err, ErrRolledBack):
			return err
		}
		if time.Since(began) > observeAgain {
			try = 0
		}
		if err := pause(ctx, min(20*time.Millisecond<<min(try, 6), time.Second)); err != nil {
			return err
		}
	}
}

// read takes the state of the line through the leader.
func (o *observation) read(ctx context.Context) error {
	state, err := o.election.readLine(ctx, o.engine)
	if err != nil {
		return err
	}
	o.revision = max(o.revision, state.revision)
	o.line = make(map[string]*mvccpb.KeyValue, len(state.kvs))
	for _, kv := range state.kvs {
		o.line[string(kv.GetKey())] = kv
	}
	return o.tell()
}

// check reads the head of the line and compares it with what the watch has told.
func (o *observation) check(ctx context.Context) error {
	head, err := o.election.readLine(ctx, o.engine, clientv3.WithLimit(1))
	if err != nil {
		return err
	}
	var leader Leader
	if len(head.kvs) > 0 {
		leader = leaderOf(head.kvs[0])
	}
	if leader != o.last {
		return errBehind // the watch has missed it, or is late: another one
	}
	return nil
}

// tell yields the leader if it has changed.
func (o *observation) tell() error {
	var first *mvccpb.KeyValue
	for _, kv := range o.line {
		if first == nil || kv.GetCreateRevision() < first.GetCreateRevision() {
			first = kv
		}
	}
	var leader Leader
	if first != nil {
		leader = leaderOf(first)
	}
	if o.begun && leader == o.last {
		return nil
	}
	o.begun, o.last = true, leader
	if !o.yield(leader, o.revision) {
		return errStopped
	}
	return nil
}

// observations numbers the watches of observers, so that each has a stream of its own.
var observations atomic.Uint64

// watch begins to watch the line from the revision after the last known one. etcd's client puts watches with equal outgoing
// metadata on one stream, whose login is that of its beginning: a watch that joins a stream which others have kept open
// for longer than a login lives is refused, again and again. So each has a stream of its own.
func (o *observation) watch(ctx context.Context) clientv3.WatchChan {
	ctx = metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "leasehold-observation", strconv.FormatUint(observations.Add(1), 10))
	dir := lineDir(o.election.cfg.Prefix, o.election.name)
	return o.election.etcd.Watcher.Watch(ctx, dir, clientv3.WithPrefix(), clientv3.WithRev(o.revision+1))
}

// follow takes the events of a watch until it fails, a read has overtaken it, or ctx ends. It never returns nil.
func (o *observation) follow(ctx context.Context) error {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := o.watch(wctx)
	again := time.NewTimer(observeAfter())
	defer again.Stop()
	for {
		select {
		case resp, ok := <-changes:
			if err := resp.Err(); !ok || err != nil {
				return cmp.Or(err, errBehind)
			}
			// The revision in the header may lie ahead of these events: the server sends what a watch has missed in
			// portions, all under the revision to which they lead. So the line is known as of the last event only.
			for _, ev := range resp.Events {
				if ev.Kv.GetModRevision() <= o.revision {
					continue
				}
				if ev.Type == clientv3.EventTypeDelete {
					delete(o.line, string(ev.Kv.GetKey()))
				} else {
					o.line[string(ev.Kv.GetKey())] = ev.Kv
				}
			}
			if n := len(resp.Events); n > 0 {
				o.revision = max(o.revision, resp.Events[n-1].Kv.GetModRevision())
			}
			if err := o.tell(); err != nil {
				return err
			}
		case <-again.C:
			if err := o.check(ctx); err != nil {
				return err
			}
			again.Reset(observeAfter())
		case <-ctx.Done():
			return ending(ctx)
		}
	}
}

func observeAfter() time.Duration { return observeAgain/2 + rand.N(observeAgain/2) }
