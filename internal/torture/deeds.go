// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// worker stops or kills a worker, or makes its way to the register long.
func (n *nemesis) worker(ctx context.Context, d deed) {
	f := fault{Kind: d.Kind, Begin: machineclock.Now(), Worker: d.Slot, Member: -1}
	process := n.workers[d.Slot]
	length := d.For.Round(time.Millisecond)
	switch d.Kind {
	case sigstop:
		f.What = fmt.Sprintf("w%d is stopped for %v", d.Slot, length)
		if process.signal(syscall.SIGSTOP) {
			n.during(ctx, f, d.For)
			process.signal(syscall.SIGCONT)
		}
	case stopBeforeWrite:
		f.What = fmt.Sprintf("w%d is stopped for %v, between a check and the write that follows", d.Slot, length)
		stopped := n.registry.atIntent(d.Slot, func() bool { return process.signal(syscall.SIGSTOP) })
		select {
		case <-stopped:
			f.Begin = machineclock.Now()
			n.during(ctx, f, d.For)
			process.signal(syscall.SIGCONT)
		case <-time.NewTimer(d.For).C: // it held nothing
			n.registry.atIntent(d.Slot, nil)
		case <-ctx.Done():
			n.registry.atIntent(d.Slot, nil)
		}
	case sigkill:
		f.What = fmt.Sprintf("w%d is killed", d.Slot)
		if process.signal(syscall.SIGKILL) {
			n.note(f)
		}
	case slowRegister:
		f.What = fmt.Sprintf("w%d's writes take up to %v", d.Slot, length)
		n.registry.setSlow(d.Slot, d.For)
		n.during(ctx, f, d.For)
		n.registry.setSlow(d.Slot, 0)
	}
}

// operate takes something away from whoever holds a name, or fills the disks.
func (n *nemesis) operate(ctx context.Context, d deed) {
	brief, cancel := context.WithTimeout(ctx, bestEffort)
	defer cancel()
	f := fault{Kind: d.Kind, Begin: machineclock.Now(), Worker: -1, Member: -1}
	if d.Kind == operatorNoSpace {
		err := n.cluster.RaiseNoSpace(brief)
		f.What = fmt.Sprintf("the alarm of a full disk, error %v", err)
		i := n.note(f)             // also if the outcome is unknown
		_ = clock.Wait(ctx, d.For) // at once if the run ends
		n.clearAlarms(ctx)
		n.ended(i)
		return
	}
	resp, err := n.operator.Get(brief, keyPrefix+d.Name+"/", clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return // no quorum, or nobody there
	}
	kv := resp.Kvs[0]
	f.Begin, f.Keys, f.Created = machineclock.Now(), []string{string(kv.Key)}, kv.CreateRevision
	switch d.Kind {
	case operatorDelete:
		_, err = n.operator.Delete(brief, string(kv.Key))
	case operatorOverwrite:
		// Only if it is still there: a key made anew would have no holder who could ever delete it.
		_, err = n.operator.Txn(brief).If(clientv3.Compare(clientv3.CreateRevision(string(kv.Key)), "=", kv.CreateRevision)).
			Then(clientv3.OpPut(string(kv.Key), "operator")).Commit()
	case operatorRevoke:
		f.Lease = kv.Lease
		_, err = n.operator.Revoke(brief, clientv3.LeaseID(kv.Lease))
	}
	f.What, f.End = fmt.Sprintf("the operator: %s %s, error %v", f.Kind, kv.Key, err), machineclock.Now()
	n.note(f) // also if the outcome is unknown
	if d.Kind == operatorOverwrite {
		n.takeBack(ctx, kv)
	}
}

// takeBack deletes a key that was overwritten, and so lost its lease, if its holder has not done it after two terms: it may have
// died, and then the key would stay for ever. It tries until it knows that the key is gone.
func (n *nemesis) takeBack(ctx context.Context, kv *mvccpb.KeyValue) {
	_ = clock.Wait(ctx, 2*n.opts.ttl) // at once if the run ends
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	key := string(kv.Key)
	f := fault{Kind: "take back", What: "the operator deletes what he has overwritten: " + key, Begin: machineclock.Now(), Worker: -1, Member: -1, Keys: []string{key}, Created: kv.CreateRevision}
	tried := false
	for ctx.Err() == nil {
		brief, cancel := context.WithTimeout(ctx, bestEffort)
		resp, err := n.operator.Txn(brief).If(
			clientv3.Compare(clientv3.CreateRevision(key), "=", kv.CreateRevision),
			clientv3.Compare(clientv3.LeaseValue(key), "=", 0),
		).Then(clientv3.OpDelete(key)).Commit()
		cancel()
		tried = tried || err != nil // what failed may have been done all the same
		if err == nil {
			if resp.Succeeded || tried {
				f.End = machineclock.Now()
				n.note(f)
			}
			return
		}
		_ = clock.Wait(ctx, 50*time.Millisecond) // the loop sees its end
	}
}

func (n *nemesis) clearAlarms(ctx context.Context) {
	clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	for clearing.Err() == nil { // again at the end of the faults; after that, a full disk is seen by everybody
		brief, cancel := context.WithTimeout(clearing, bestEffort)
		_, err := n.operator.AlarmDisarm(brief, &clientv3.AlarmMember{})
		cancel()
		if err == nil {
			return
		}
		_ = clock.Wait(clearing, 50*time.Millisecond) // the loop sees its end
	}
}

// raiseBy is by how much the operator lifts the revision above the last one that he knew, as an operator does who restores
// (docs/operations.md): more than can have been written since.
const raiseBy = 2000

// rewind takes the data back, or away. Then the operator does what makes the cluster usable again: he turns authentication on, and
// lifts the revision above all that were handed out.
func (n *nemesis) rewind(ctx context.Context, d deed) error {
	var saved *leaseholdtest.Saved
	if d.Kind == rollBack {
		f := fault{Kind: "save", What: "all members stop for a moment, to save the data", Begin: machineclock.Now(), Worker: -1, Member: -1}
		var err error
		if saved, err = n.cluster.Save(ctx); err != nil {
			return err
		}
		f.End = machineclock.Now()
		n.note(f)
	}
	if err := clock.Wait(ctx, d.For); err != nil {
		return err
	}
	high, err := n.revision(ctx)
	if err != nil {
		return err
	}
	f := fault{Kind: d.Kind, What: d.Kind + " the data of all members", Begin: machineclock.Now(), Worker: -1, Member: -1, Rewind: true}
	switch d.Kind {
	case rollBack:
		err = n.cluster.Rollback(ctx, saved)
	case wipe:
		err = n.cluster.Wipe(ctx)
	case replace:
		err = n.cluster.Replace(ctx)
	}
	if err != nil {
		return err
	}
	if n.opts.auth && d.Kind != rollBack {
		if err := n.opts.enableAuth(ctx, n.cluster); err != nil {
			return err
		}
	}
	f.End = machineclock.Now()
	n.note(f)
	if err := n.login(); err != nil {
		return err
	}
	f = fault{Kind: "raise revision", Begin: machineclock.Now(), Worker: -1, Member: -1}
	if err := n.raise(ctx, high+raiseBy); err != nil {
		return err
	}
	f.What, f.End = fmt.Sprintf("the operator lifts the revision above %d", high+raiseBy), machineclock.Now()
	n.note(f)
	return clock.Wait(ctx, n.opts.ttl)
}

// login makes the operator's client, anew because the login of the one before may mean nothing to another cluster.
func (n *nemesis) login() error {
	o := leaseholdtest.ClientOptions{}
	if n.opts.auth {
		o.User, o.Password = leaseholdtest.RootUser, leaseholdtest.RootPassword
	}
	cl, err := n.cluster.NewDirectClient(o)
	if err != nil {
		return err
	}
	n.logout()
	n.operator = cl
	return nil
}

func (n *nemesis) logout() {
	if n.operator != nil {
		_ = n.operator.Close() // nothing is lost with it
	}
}

// revision asks for the revision of the store until it is told.
func (n *nemesis) revision(ctx context.Context) (int64, error) {
	for {
		brief, cancel := context.WithTimeout(ctx, bestEffort)
		resp, err := n.operator.Get(brief, "\x00", clientv3.WithCountOnly())
		cancel()
		if err == nil {
			return resp.Header.Revision, nil
		}
		if err := clock.Wait(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// raise writes until the store has passed a revision.
func (n *nemesis) raise(ctx context.Context, to int64) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // by far
	defer cancel()
	var at atomic.Int64
	var last atomic.Pointer[error]
	var writers sync.WaitGroup
	for i := range 32 {
		writers.Go(func() {
			for at.Load() <= to && ctx.Err() == nil {
				brief, cancel := context.WithTimeout(ctx, bestEffort)
				resp, err := n.operator.Put(brief, fmt.Sprintf("raise/%d", i), "")
				cancel()
				if err != nil {
					last.Store(&err)
					_ = clock.Wait(ctx, 50*time.Millisecond) // the loop sees its end
					continue
				}
				at.Store(max(at.Load(), resp.Header.Revision)) // a lower one costs some writes more
			}
		})
	}
	writers.Wait()
	if at.Load() > to {
		return nil
	}
	if err := last.Load(); err != nil {
		return fmt.Errorf("lift the revision above %d: %w", to, *err)
	}
	return context.Cause(ctx)
}
