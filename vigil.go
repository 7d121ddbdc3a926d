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
	wake   bell

	mu sync.Mutex
	// The grants that are too young, linked by age. One that ends leaves at once: thousands a second do, and would be kept from
	// the garbage collector for nothing.
	oldest, youngest *Grant
	armed            bool // run will look at them in time
}

// aged links a grant into the vigil; guarded by vigil.mu.
type aged struct {
	listed         bool
	older, younger *Grant
}

// youth is the age at which a grant is put under watch.
const youth = time.Second

func newVigil(e *engine) *vigil {
	return &vigil{engine: e, wake: newBell()}
}

// add takes care of a new grant.
func (v *vigil) add(g *Grant) {
	v.mu.Lock()
	g.age = aged{listed: true, older: v.youngest}
	if v.youngest == nil {
		v.oldest = g
	} else {
		v.youngest.age.younger = g
	}
	v.youngest = g
	armed := v.armed
	v.armed = true
	v.mu.Unlock()
	if !armed {
		v.kick()
	}
}

// remove forgets a grant that has ended. Called without Grant.mu.
func (v *vigil) remove(g *Grant) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.removeLocked(g)
}

func (v *vigil) removeLocked(g *Grant) {
	if !g.age.listed {
		return
	}
	older, younger := g.age.older, g.age.younger
	if older == nil {
		v.oldest = younger
	} else {
		older.age.younger = younger
	}
	if younger == nil {
		v.youngest = older
	} else {
		younger.age.older = older
	}
	g.age = aged{}
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

func (v *vigil) kick() { v.wake.ring() }

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

// mature puts the grants under watch that are old enough and returns how long no other will be. Grants that end meanwhile make that
// too short at worst.
func (v *vigil) mature() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	for v.oldest != nil {
		g := v.oldest
		if g.ended.Load() == nil && !g.place.session.ended() {
			if age := now.Sub(g.since); age < youth {
				return youth - age
			}
			g.startWatch()
		}
		v.removeLocked(g)
	}
	v.armed = false
	return time.Hour
}

func (g *Grant) startWatch() {
	p := g.place
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended.Load() == nil {
		g.watch = p.session.engine.watcher.watch(p.session, p.key, "", g)
	}
}
