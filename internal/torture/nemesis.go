// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/leaseholdtest"
)

// nemesis does what goes wrong: to the cluster and its links by a schedule of leaseholdtest, to the workers by signals, to keys as an
// operator. What it does and when follows from the seed alone, so that two subjects meet the same.
type nemesis struct {
	opts     options
	cluster  *leaseholdtest.Cluster
	clients  []*leaseholdtest.Client // by slot
	workers  []*slot
	registry *registers
	operator *clientv3.Client
	begin    time.Time

	mu     sync.Mutex
	faults []fault
	open   map[string]int // faults that last, by what they concern: an index into faults
}

// note records a fault that happens in an instant, and returns where.
func (n *nemesis) note(f fault) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if f.End == 0 {
		f.End = f.Begin
	}
	n.faults = append(n.faults, f)
	return len(n.faults) - 1
}

func (n *nemesis) ended(i int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults[i].End = now()
}

// run plays everything and returns when the last fault is repaired.
func (n *nemesis) run(ctx context.Context) error {
	n.begin = time.Now()
	n.open = make(map[string]int)
	errs := make([]error, 3)
	var all sync.WaitGroup
	all.Go(func() { errs[0] = n.playCluster(ctx) })
	all.Go(func() { n.playWorkers(ctx) })
	all.Go(func() { n.playOperator(ctx) })
	all.Wait()
	n.clearAlarms(ctx)
	return cmp.Or(errs...)
}

// playCluster plays a schedule of faults of members and links.
func (n *nemesis) playCluster(ctx context.Context) error {
	schedule := leaseholdtest.NewSchedule(n.opts.seed, leaseholdtest.ScheduleOptions{
		Members: n.opts.members, Clients: n.opts.workers, Length: n.opts.length,
		Every: n.opts.every, Longest: n.opts.ttl * 5 / 2,
	})
	for _, s := range schedule.Steps {
		if n.wait(ctx, s.At) != nil {
			break
		}
		n.step(ctx, s)
	}
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err := n.cluster.HealAll(healing); err != nil {
		return fmt.Errorf("heal the cluster: %w", err)
	}
	return nil
}

func (n *nemesis) wait(ctx context.Context, at time.Duration) error {
	return sleep(ctx, time.Until(n.begin.Add(at)))
}

// bestEffort bounds what needs a quorum, which there may not be.
const bestEffort = time.Second

// step does one step of the schedule.
func (n *nemesis) step(ctx context.Context, s leaseholdtest.Step) {
	f := fault{Kind: string(s.Do), What: s.String(), Begin: now(), Worker: -1, Member: s.Member}
	link := func() *leaseholdtest.Link { return n.clients[s.Client].Link(n.cluster.Member(s.Member)) }
	member := n.cluster.Member(s.Member)
	brief, cancel := context.WithTimeout(ctx, bestEffort)
	defer cancel()
	about := fmt.Sprintf("member %d", s.Member)
	switch s.Do {
	case leaseholdtest.ActKill:
		_ = member.Kill(ctx) // what fails leaves a fault out, and HealAll tells of a member that does not come back
	case leaseholdtest.ActStop:
		_ = member.Stop(ctx)
	case leaseholdtest.ActRestart:
		_ = member.Restart(brief) // without the wait until it serves
	case leaseholdtest.ActPause:
		member.Pause()
	case leaseholdtest.ActResume:
		member.Resume()
	case leaseholdtest.ActIsolate:
		n.cluster.Isolate(member)
	case leaseholdtest.ActRejoin:
		n.cluster.Rejoin(member)
	case leaseholdtest.ActCut:
		n.cluster.Cut(member, n.cluster.Member(s.Other))
	case leaseholdtest.ActCutOneWay:
		n.cluster.CutOneWay(member, n.cluster.Member(s.Other))
	case leaseholdtest.ActMend:
		n.cluster.Mend(member, n.cluster.Member(s.Other))
	case leaseholdtest.ActLead:
		_ = n.cluster.MoveLeader(brief, member)
	case leaseholdtest.ActCompact:
		_, _ = n.cluster.Compact(brief)
	default:
		about = fmt.Sprintf("link of w%d to member %d", s.Client, s.Member)
		f.Worker = s.Client
		onLink(link(), s)
	}
	n.record(about, f)
}

func onLink(l *leaseholdtest.Link, s leaseholdtest.Step) {
	switch s.Do {
	case leaseholdtest.ActHold:
		l.Hold(s.Dir)
	case leaseholdtest.ActBlackhole:
		l.Blackhole(s.Dir)
	case leaseholdtest.ActDelay:
		l.Delay(s.Dir, s.Delay, s.Jitter)
	case leaseholdtest.ActLimit:
		l.Limit(s.Dir, s.Rate)
	case leaseholdtest.ActRefuse:
		l.Refuse()
	case leaseholdtest.ActReset:
		l.Reset()
	case leaseholdtest.ActHeal:
		l.Heal()
	}
}

// repairs are the steps that end the fault of what they concern.
var repairs = []string{
	string(leaseholdtest.ActRestart), string(leaseholdtest.ActResume), string(leaseholdtest.ActRejoin),
	string(leaseholdtest.ActMend), string(leaseholdtest.ActHeal),
}

// instants are the steps that last no time.
var instants = []string{string(leaseholdtest.ActLead), string(leaseholdtest.ActCompact), string(leaseholdtest.ActReset)}

func (n *nemesis) record(about string, f fault) {
	if slices.Contains(repairs, f.Kind) {
		n.mu.Lock()
		i, ok := n.open[about]
		delete(n.open, about)
		n.mu.Unlock()
		if ok {
			n.ended(i)
		}
		return
	}
	i := n.note(f)
	if !slices.Contains(instants, f.Kind) {
		n.mu.Lock()
		n.open[about] = i
		n.mu.Unlock()
	}
}

// playWorkers stops and kills workers, and makes their way to the register long.
func (n *nemesis) playWorkers(ctx context.Context) {
	rng := rand.New(rand.NewPCG(n.opts.seed, 1))
	var lasting sync.WaitGroup
	defer lasting.Wait()
	for at := time.Duration(0); ; {
		at += n.opts.every/2 + time.Duration(rng.Int64N(int64(n.opts.every)))
		slot, what := rng.IntN(n.opts.workers), []int{0, 0, 1, 2}[rng.IntN(4)]
		d := time.Duration(rng.Float64() * 3 * float64(n.opts.ttl))
		if at+d >= n.opts.length || n.wait(ctx, at) != nil {
			return
		}
		lasting.Go(func() { n.trouble(ctx, slot, what, d) })
	}
}

func (n *nemesis) trouble(ctx context.Context, slot, what int, d time.Duration) {
	f := fault{Begin: now(), Worker: slot, Member: -1}
	switch what {
	case 0:
		f.Kind, f.What = "sigstop", fmt.Sprintf("w%d is stopped for %v", slot, d.Round(time.Millisecond))
		if !n.workers[slot].signal(syscall.SIGSTOP) {
			return
		}
		i := n.note(f)
		_ = sleep(ctx, d) // it goes on at once if the run ends
		n.workers[slot].signal(syscall.SIGCONT)
		n.ended(i)
	case 1:
		f.Kind, f.What = "sigkill", fmt.Sprintf("w%d is killed", slot)
		if n.workers[slot].signal(syscall.SIGKILL) {
			n.note(f)
		}
	case 2:
		f.Kind, f.What = "slow register", fmt.Sprintf("w%d's writes take up to %v", slot, d.Round(time.Millisecond))
		i := n.note(f)
		n.registry.setSlow(slot, d)
		_ = sleep(ctx, d)
		n.registry.setSlow(slot, 0)
		n.ended(i)
	}
}

// playOperator takes keys away from those who hold them.
func (n *nemesis) playOperator(ctx context.Context) {
	rng := rand.New(rand.NewPCG(n.opts.seed, 2))
	var lasting sync.WaitGroup
	defer lasting.Wait()
	for at := time.Duration(0); ; {
		at += 4*n.opts.every + time.Duration(rng.Int64N(int64(8*n.opts.every)))
		name, what := n.opts.names()[rng.IntN(len(n.opts.names()))], rng.IntN(4)
		if at >= n.opts.length || n.wait(ctx, at) != nil {
			return
		}
		brief, cancel := context.WithTimeout(ctx, bestEffort)
		left := n.operate(brief, name, what)
		cancel()
		if left != nil {
			lasting.Go(func() { n.takeBack(ctx, left) })
		}
	}
}

// operate returns a key that it has made immortal, if it has.
func (n *nemesis) operate(ctx context.Context, name string, what int) (left *mvccpb.KeyValue) {
	if what == 3 {
		n.noSpace(ctx)
		return nil
	}
	resp, err := n.operator.Get(ctx, keyPrefix+name+"/", clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return nil // no quorum, or nobody there
	}
	kv := resp.Kvs[0]
	f := fault{Begin: now(), Worker: -1, Member: -1, Keys: []string{string(kv.Key)}}
	switch what {
	case 0:
		f.Kind = "delete"
		_, err = n.operator.Delete(ctx, string(kv.Key))
	case 1:
		f.Kind, left = "overwrite", kv
		_, err = n.operator.Put(ctx, string(kv.Key), "operator")
	case 2:
		f.Kind, f.Lease = "revoke", kv.Lease
		_, err = n.operator.Revoke(ctx, clientv3.LeaseID(kv.Lease))
	}
	f.What, f.End = fmt.Sprintf("the operator: %s %s, error %v", f.Kind, kv.Key, err), now()
	n.note(f) // also if the outcome is unknown
	return left
}

// takeBack deletes a key that was overwritten, and so lost its lease, if its holder has not done it after two terms: it may have
// died, and then the key would stay for ever.
func (n *nemesis) takeBack(ctx context.Context, kv *mvccpb.KeyValue) {
	_ = sleep(ctx, 2*n.opts.ttl) // at once if the run ends
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	key := string(kv.Key)
	f := fault{Kind: "take back", What: "the operator deletes what he has overwritten: " + key, Begin: now(), Worker: -1, Member: -1, Keys: []string{key}}
	resp, err := n.operator.Txn(ctx).If(
		clientv3.Compare(clientv3.CreateRevision(key), "=", kv.CreateRevision),
		clientv3.Compare(clientv3.LeaseValue(key), "=", 0),
	).Then(clientv3.OpDelete(key)).Commit()
	if err != nil || resp.Succeeded {
		f.End = now()
		n.note(f)
	}
}

// noSpace raises the alarm that a full disk raises, for half a second.
func (n *nemesis) noSpace(ctx context.Context) {
	f := fault{Kind: "no space", What: "the alarm of a full disk", Begin: now(), Worker: -1, Member: -1}
	if n.cluster.RaiseNoSpace(ctx) == nil {
		i := n.note(f)
		_ = sleep(ctx, 500*time.Millisecond)
		defer n.ended(i)
	}
	n.clearAlarms(ctx)
}

func (n *nemesis) clearAlarms(ctx context.Context) {
	clearing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	_ = n.cluster.ClearAlarms(clearing) // again at the end of the faults; after that, a full disk is seen by everybody
}
