// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The vigil tells holders that their key was taken away (R10). A grant that has become a second old is put under watch:
// a short critical section is over before that and pays nothing. What happened before a watch began, or while it was broken,
// is found by reading the keys, many at a time.
type vigil struct {
	engine *engine
	wake   chan struct{} // holds one

	mu    sync.Mutex
	young []*Grant // by age, oldest first; released ones stay until their time
}

// youth is the age at which a grant is put under watch.
const youth = time.Second

func newVigil(e *engine) *vigil {
	return &vigil{engine: e, wake: make(chan struct{}, 1)}
}

// add takes care of a new grant.
func (v *vigil) add(g *Grant) {
	v.mu.Lock()
	v.young = append(v.young, g)
	first := len(v.young) == 1
	v.mu.Unlock()
	if first {
		v.kick()
	}
}

// verify reads the grant's key, in one read with others.
func (v *vigil) verify(g *Grant) {
	v.engine.reads.submit(&write{
		then:   []clientv3.Op{clientv3.OpGet(g.place.key)},
		wanted: func() bool { return g.ended.Load() == nil && !g.place.session.ended() },
		done: func(resp *clientv3.TxnResponse, err error) {
			if err != nil {
				return // refused: the watch, which needs the same permission, will be as well, and says so
			}
			if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) == 0 || !g.place.intact(kvs[0]) {
				g.taken()
			}
		},
	})
}

func (v *vigil) kick() {
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

func (v *vigil) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(v.mature())
		select {
		case <-timer.C:
		case <-v.wake:
		case <-v.engine.ctx.Done():
			return
		}
	}
}

// mature puts the grants under watch that are old enough and returns how long no other will be.
func (v *vigil) mature() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := v.engine.clk.Now()
	for len(v.young) > 0 {
		g := v.young[0]
		if g.ended.Load() == nil && !g.place.session.ended() {
			if age := now.Sub(g.since); age < youth {
				return youth - age
			}
			g.startWatch()
		}
		v.young[0] = nil
		v.young = v.young[1:]
	}
	v.young = nil
	return time.Hour
}

func (g *Grant) startWatch() {
	p := g.place
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended.Load() == nil {
		g.watch = p.session.engine.watcher.watch(p.session, p.key, "", p.key, g)
	}
}
