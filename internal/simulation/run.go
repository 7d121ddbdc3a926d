// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/etcdfake"
)

// Report is what came of a plan.
type Report struct {
	Plan       Plan
	Violations []Violation
	Trace      []string // what happened, in order, if something was violated
	Stats      Stats
}

// Failed reports whether an invariant was violated.
func (r Report) Failed() bool { return len(r.Violations) > 0 }

func (r Report) String() string {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}

// run is one execution of a plan.
type run struct {
	plan    Plan
	ctx     context.Context
	cluster *etcdfake.Cluster
	judge   *judge
	hosts   []*host
	used    map[Verb]bool

	hitMu sync.Mutex // a leaf
	hits  []*hit

	stopping chan struct{} // closed when the steps are over: whoever holds gives back
	ended    atomic.Bool   // no request is hit any more
	calls    sync.WaitGroup
	faults   sync.WaitGroup
}

// Run executes a plan in a bubble of its own, and leaves nothing behind. That is the last invariant, which the bubble itself
// checks: it ends the process if a goroutine is left.
func Run(t *testing.T, p Plan) (report Report) {
	synctest.Test(t, func(t *testing.T) {
		r, err := start(t, p)
		if err != nil {
			t.Fatal(err)
		}
		r.play()
		r.finish()
		r.judge.conclude()
		report = Report{Plan: p, Violations: r.judge.violations, Trace: r.judge.traced(), Stats: r.judge.stats}
	})
	return report
}

func start(t *testing.T, p Plan) (*run, error) {
	w := p.World
	r := &run{
		plan: p, ctx: t.Context(), used: make(map[Verb]bool), stopping: make(chan struct{}),
		cluster: etcdfake.NewForTest(t, etcdfake.Options{
			Members: w.Members, Seed: w.Seed, ElectionTimeout: w.Election,
			CommitLatency: w.Commit, CommitJitter: w.Commit, ApplyLatency: w.Apply, PeerDelay: w.Peer,
			Lease: etcdfake.LeaseBehaviour{
				WaitApplied: w.Waits, RenewStall: w.Stall,
				NoRecheck: w.Flaw == FlawNoRecheck, FormerLeaderRenews: w.Flaw == FlawFormerLeader,
				ResumedStepsDown: w.Flaw != FlawResumedLeader,
			},
		}),
	}
	for i := range w.Members {
		r.cluster.Member(i).SetClockRate(w.Rate)
	}
	r.judge = newJudge(r)
	r.cluster.Hook(r.intercept)
	for i := range w.Hosts {
		h, err := r.newHost(i)
		if err != nil {
			return nil, err
		}
		r.hosts = append(r.hosts, h)
	}
	for _, s := range p.Steps {
		r.used[s.Do] = true
	}
	return r, nil
}

// play does the steps, each in its time, and returns when all calls have returned and all faults are repaired.
func (r *run) play() {
	looking := make(chan struct{})
	defer close(looking)
	go r.lookOn(looking)
	began := time.Now()
	for _, s := range r.plan.Steps {
		r.pass(time.Until(began.Add(s.At)))
		of, _ := specOf(s.Do)
		r.judge.step(s, of)
		if of.call {
			r.calls.Go(func() { r.call(s) })
		} else {
			r.faults.Go(func() { r.fault(s) })
		}
	}
	r.faults.Wait()
	r.ended.Store(true)
	for i := range r.plan.World.Members {
		r.cluster.Member(i).SetClockRate(r.plan.World.Rate)
	}
	close(r.stopping)
	r.calls.Wait()
	for !r.judge.calm() {
		r.pass(lookEvery)
	}
}

// lookEvery is how often the judge looks when nothing happens.
const lookEvery = 100 * time.Millisecond

func (r *run) lookOn(until <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.judge.look()
		case <-until:
			return
		}
	}
}

// pass lets time pass.
func (r *run) pass(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	<-t.C
}

// finish shows that everything works again, gives everything back and looks for what is left.
func (r *run) finish() {
	r.judge.note("faults and calls are over")
	swept := make(chan struct{})
	go r.sweepOn(swept)
	defer close(swept)
	r.newcomer()
	var closing sync.WaitGroup
	for _, h := range r.hosts {
		for i := range users {
			closing.Go(func() {
				ctx, cancel := context.WithTimeout(r.ctx, r.judge.bound.free)
				defer cancel()
				if err := h.user(i).close(ctx); err != nil {
					r.judge.violation("close", "host %d, user %d: %v", h.number, i, err)
				}
			})
		}
	}
	closing.Wait()
	r.judge.look()
	for left := r.judge.bound.free; ; left -= lookEvery {
		keys, leases := r.cluster.Keys(""), r.cluster.Leases()
		if len(keys)+len(leases) == 0 {
			break
		}
		if left <= 0 {
			r.judge.violation("left behind", "%d keys (%v), %d leases (%x)", len(keys), keys, len(leases), leases)
			break
		}
		r.pass(lookEvery)
	}
	for _, h := range r.hosts {
		if err := h.etcd.Close(); err != nil && !errors.Is(err, context.Canceled) {
			r.judge.violation("close", "the etcd client of host %d: %v", h.number, err)
		}
	}
}

func (r *run) sweepOn(until <-chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.sweep()
		case <-until:
			return
		}
	}
}

// sweep is the operator who removes what he made immortal: an overwritten key has no lease, and when the session of its holder
// ends before that has deleted it, nobody else will. While the session's lease lives, it is for the SDK to delete, unless it never
// came to know that the key was its own. A backup brings
// back keys that were released after it, under leases that may live on; that their holders notice that the cluster went back is
// likely, and not sure when it was a few revisions and others have made up for them.
func (r *run) sweep() {
	leases := r.cluster.Leases()
	for _, kv := range r.cluster.Keys(prefix) {
		_, place, _ := strings.Cut(strings.TrimPrefix(string(kv.GetKey()), prefix), "/")
		hex, _, _ := strings.Cut(place, "-")
		id, err := strconv.ParseInt(hex, 16, 64)
		dead := err != nil || !slices.Contains(leases, clientv3.LeaseID(id))
		orphan := kv.GetLease() == 0 && (dead || !r.judge.wasGranted(keyOf(kv)))
		if orphan || kv.GetCreateRevision() <= r.judge.backup() {
			_, _ = r.cluster.Delete(string(kv.GetKey())) // it cannot fail
		}
	}
}

// newcomer gets every name within the bound, while the sessions of all others live on.
func (r *run) newcomer() {
	h, err := r.newHost(len(r.hosts))
	if err != nil {
		r.judge.violation("newcomer", "%v", err)
		return
	}
	r.hosts = append(r.hosts, h)
	ctx, cancel := context.WithTimeout(r.ctx, r.judge.bound.free)
	defer cancel()
	var names sync.WaitGroup
	for name := range r.plan.World.Names {
		names.Go(func() {
			u := h.user(0)
			began := time.Now()
			g, err := u.pool.Lock(ctx, nameOf(name))
			if err != nil {
				var line []string
				for _, kv := range r.cluster.Keys(prefix + nameOf(name) + "/") {
					line = append(line, fmt.Sprintf("%s lease %x", kv.GetKey(), kv.GetLease()))
				}
				r.judge.violation("stuck", "%s: %v, after %v; the line is %v", nameOf(name), err, time.Since(began), slices.Clip(line))
				return
			}
			r.judge.granted(u, name, g)
			r.judge.freed(time.Since(began))
			r.giveBack(u, g, g.Release)
		})
	}
	names.Wait()
}
