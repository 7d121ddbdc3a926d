// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Observe yields who leads: the present state at once, and then every change that it comes to see. Nobody leads: the zero
// Leader with a nil error. States are never older than those before; of changes in quick succession, some may be
// left out, but not the last. It survives compaction, reconnects and lost quorum, and needs no session.
//
// When ctx ends it yields ctx's error, once, and ends. It also ends, after yielding it, with an error that waiting does
// not help: an invalid name, no permission, a closed etcd client, or [ErrRolledBack].
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		o := observation{election: e, yield: func(l Leader) bool { return yield(l, nil) }}
		if err := o.run(ctx); err != nil {
			yield(Leader{}, fmt.Errorf("leasehold: observe %s: %w", quoteBounded(e.name), err))
		}
	}
}

// An observation is one run of Observe, in its caller's goroutine. It reads the line and follows it with etcd's own
// watch from the revision after. The watch may be silent for reasons that it does not know of (a dead member), so
// the line is read again from time to time, and a watch that has missed something is replaced.
type observation struct {
	election *Election
	yield    func(Leader) bool

	revision int64                       // the line is known as of here; it never falls
	line     map[string]*mvccpb.KeyValue // the keys of the line
	last     Leader                      // as yielded
	begun    bool                        // something was yielded
}

// observeAgain is how often the line is read although the watch tells nothing.
const observeAgain = 3 * time.Second

var (
	errStopped = errors.New("leasehold: the observer has stopped")   // the loop over Observe was left
	errBehind  = errors.New("leasehold: the watch missed something") // reading the line again catches up
)

func (o *observation) run(ctx context.Context) error {
	if err := checkName(o.election.name); err != nil {
		return err
	}
	for try := 0; ; try++ {
		began := time.Now()
		err := o.read(ctx)
		if err == nil {
			err = o.follow(ctx)
		}
		switch {
		case errors.Is(err, errStopped):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrClosed), !errors.Is(err, errBehind) && judge(err) == outcomeRefused:
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
	state, err := o.election.readLine(ctx)
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
	if !o.yield(leader) {
		return errStopped
	}
	return nil
}

// follow watches the line from the revision after the last known one, until the watch fails, is overtaken by a read, or
// ctx ends. It never returns nil.
func (o *observation) follow(ctx context.Context) error {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir := lineDir(o.election.cfg.Prefix, o.election.name)
	changes := o.election.etcd.Watcher.Watch(clientv3.WithRequireLeader(wctx), dir, clientv3.WithPrefix(), clientv3.WithRev(o.revision+1))
	again := time.NewTicker(observeAgain)
	defer again.Stop()
	for {
		select {
		case resp, ok := <-changes:
			if err := resp.Err(); err != nil && resp.CompactRevision == 0 {
				return err
			}
			if !ok || resp.Canceled {
				return errBehind
			}
			if resp.Header.GetRevision() <= o.revision {
				continue // read meanwhile
			}
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
			o.revision = resp.Header.GetRevision()
			if err := o.tell(); err != nil {
				return err
			}
		case <-again.C:
			before := o.last
			if err := o.read(ctx); err != nil {
				return err
			}
			if o.last != before {
				return errBehind // the watch has missed it, or is late: another one
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
