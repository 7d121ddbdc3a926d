// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// everywhere stands for all hosts where one is asked for.
const everywhere = -1

// fault does what goes wrong in a step, waits, and repairs it.
func (r *run) fault(s Step) {
	c, w := r.cluster, r.plan.World
	member := func() *etcdfake.Member { return c.Member(s.Member) }
	switch s.Do {
	case Stop:
		r.lasts(s, everywhere, member().Stop, member().Start)
	case Pause:
		r.lasts(s, everywhere, member().Pause, member().Resume)
	case Blackhole:
		r.lasts(s, everywhere, member().Blackhole, member().Unblackhole)
	case Isolate:
		r.lasts(s, everywhere, member().Isolate, member().Rejoin)
	case Lag:
		r.lasts(s, everywhere, func() { member().SetLag(s.Wait) }, func() { member().SetLag(0) })
	case Standstill:
		r.lasts(s, everywhere, member().StopClock, member().StartClock)
	case Commit:
		r.lasts(s, everywhere, func() { c.SetLatency(s.Wait, w.Apply) }, func() { c.SetLatency(w.Commit, w.Apply) })
	case NoSpace:
		r.lasts(s, everywhere, func() { c.SetNoSpace(true) }, func() { c.SetNoSpace(false) })
	case Elect:
		r.lasts(s, everywhere, func() { c.SetLeader(s.Member) }, func() {})
	case Rate:
		member().SetClockRate(s.Rate)
	case Compact:
		r.lasts(s, everywhere, func() { _ = c.Compact(c.Revision()) }, func() {}) // it may be compacted already
	case Hold, Slow, Lossy, Refuse, Reset, Cut:
		r.network(s)
	case Late, LateAnswer, LoseAsk, LoseAnswer, KeepAnswer, Twice:
		r.request(s)
	case Sleep:
		r.lasts(Step{}, everywhere, func() { r.sleep(s.For) }, func() {})
	case Nap:
		r.lasts(Step{}, s.Host, func() { r.hosts[s.Host].clock.Suspend(s.For) }, func() {})
	case Delete, Overwrite, Revoke:
		r.operate(s)
	case RollBack:
		r.lasts(Step{}, everywhere, func() { r.rollBack(s.Count) }, func() {})
	case Replace:
		r.lasts(Step{}, everywhere, r.replace, func() {})
	}
}

// lasts is a fault that concerns a host, or all, and lasts for s.For.
func (r *run) lasts(s Step, host int, begin, end func()) {
	defer r.judge.disturbed(host)()
	begin()
	r.judge.look() // before anybody has done anything about it
	r.pass(s.For)
	end()
	r.judge.look()
}

func (r *run) network(s Step) {
	l, delay := r.hosts[s.Host].net.Link(s.Member), r.plan.World.Delay
	up, down := s.Dir&Up != 0, s.Dir&Down != 0
	switch s.Do {
	case Hold:
		r.lasts(s, s.Host, func() { l.Hold(up, down) }, func() { l.Release(up, down) })
	case Cut:
		each := func(f func(*etcdfake.Link)) func() {
			return func() {
				for i := range r.plan.World.Members {
					f(r.hosts[s.Host].net.Link(i))
				}
			}
		}
		r.lasts(s, s.Host, each(func(l *etcdfake.Link) { l.Hold(up, down) }), each(func(l *etcdfake.Link) { l.Release(up, down) }))
	case Slow:
		r.lasts(s, s.Host, func() { l.SetDelay(s.Wait, s.Wait) }, func() { l.SetDelay(delay, delay) })
		defer r.judge.disturbed(s.Host)()
		r.pass(2 * s.Wait) // what was sent before arrives as slowly
	case Lossy:
		loss := func(on bool) float64 {
			if on {
				return s.Rate
			}
			return 0
		}
		r.lasts(s, s.Host, func() { l.SetLoss(loss(up), loss(down)) }, func() { l.SetLoss(0, 0) })
	case Refuse:
		r.lasts(s, s.Host, l.Refuse, l.Accept)
	case Reset:
		r.lasts(Step{}, s.Host, l.Reset, func() {})
	}
}

var methodNames = [methods]string{"KV/Txn", "Lease/LeaseGrant", "Lease/LeaseRevoke", "Lease/LeaseKeepAlive", "Watch/Watch"}

// hit is what happens to the next requests of a kind from a host.
type hit struct {
	host   int
	method string
	left   int
	act    etcdfake.Hook
	brief  bool // it lasts for as long as the client waits, which is the client's business
}

// request does something to the next requests of a kind from a host.
func (r *run) request(s Step) {
	h := &hit{host: s.Host, method: methodNames[s.Call], left: s.Count, brief: s.Do == KeepAnswer}
	switch s.Do {
	case Late:
		h.act = etcdfake.Delay(s.Wait)
	case LateAnswer:
		h.act = etcdfake.DelayAnswer(s.Wait)
	case LoseAsk:
		h.act = etcdfake.LoseRequest()
	case LoseAnswer:
		h.act = etcdfake.LoseAnswer()
	case KeepAnswer:
		h.act = etcdfake.KeepAnswer()
	case Twice:
		h.act = etcdfake.Repeat(2)
	}
	r.hitMu.Lock()
	defer r.hitMu.Unlock()
	r.hits = append(r.hits, h)
}

// intercept is the hook through which all requests go. A request is hit once: what two hits would make of it together
// is more than any network does.
func (r *run) intercept(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (answer proto.Message, err error) {
	r.judge.note("%s from %s at member %d: %v", call.Method, call.Host, call.Member, call.Request)
	defer func() {
		if err != nil {
			r.judge.note("%s from %s at member %d: answered %v", call.Method, call.Host, call.Member, err)
		}
		if a, ok := answer.(*pb.LeaseKeepAliveResponse); ok && a.TTL <= 0 {
			r.judge.note("lease %x is unknown to member %d", a.ID, call.Member)
		}
	}()
	h := r.hitOf(call)
	if h == nil {
		return next(ctx)
	}
	r.judge.note("%s of %s to member %d is hit", call.Method, call.Host, call.Member)
	calm := r.judge.disturbed(h.host)
	if h.brief {
		calm()
	} else {
		defer calm()
	}
	return h.act(ctx, call, next)
}

func (r *run) hitOf(call etcdfake.Call) *hit {
	r.hitMu.Lock()
	defer r.hitMu.Unlock()
	for _, h := range r.hits {
		if !r.ended.Load() && h.left > 0 && h.method == call.Method && r.hosts[h.host].net.Name() == call.Host {
			h.left--
			return h
		}
	}
	return nil
}

// sleep is every machine asleep for d, seen from after it: all clocks have gone on, no timer has. The hosts come first, so that no
// instant exists at which a request could be sent by an old clock and arrive by a new one: it takes longer than that to arrive.
func (r *run) sleep(d time.Duration) {
	for _, h := range r.hosts {
		h.clock.Suspend(d)
	}
	for i := range r.plan.World.Members {
		r.cluster.Member(i).LeapClock(d)
	}
}

// operate is an operator who takes a key away.
func (r *run) operate(s Step) {
	line := r.cluster.Keys(prefix + nameOf(s.Name) + "/")
	if s.Count >= len(line) {
		return
	}
	kv, lease := line[s.Count], clientv3.LeaseID(0)
	if s.Do == Revoke {
		lease = leaseOf(kv)
	}
	r.judge.operates(lease, func() (rev int64, err error) {
		switch s.Do {
		case Delete:
			return r.cluster.Delete(string(kv.GetKey()))
		case Overwrite:
			return r.cluster.Put(string(kv.GetKey()), "operator", 0)
		default:
			return r.cluster.Revoke(lease)
		}
	})
}

func (r *run) rollBack(back int) {
	r.judge.goesBack(func() { _ = r.cluster.RollBackTo(max(1, r.cluster.Revision()-int64(back))) }) // in range
}

func (r *run) replace() {
	r.judge.goesBack(func() { r.cluster.Replace(r.plan.World.Seed | 1) })
}
