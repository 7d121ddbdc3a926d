// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// The watcher follows keys for all waiters and grants of an etcd client over one watch stream. etcd's own client would
// need a goroutine for each watch, and does not notice a member that has fallen silent.
//
// A watch here always begins "now": a start revision that the store has passed would put it into the group which the
// server serves every 100 ms. So a watch tells nothing about the past. Its subscriber learns through opened that from here
// on it will miss nothing, and then reads what happened before. The same holds after a break: the stream is opened again over
// another member, every watch on it begins anew, and opened is called again.
//
// States of a watch: wanted (to be created on the current stream), created, refused (to be tried again later). The
// server answers creations in the order in which they were sent, also those that it refuses, whose answers carry no id.
//
// Silence. Nothing distinguishes a quiet line from a dead member, so the watcher asks for progress when it has heard
// nothing for a while, and takes an unanswered question as a break.
type watcher struct {
	engine *engine
	wake   chan struct{} // holds one

	mu      sync.Mutex
	watches map[int64]*watch
	lastID  int64
	stream  *watchStream // open or opening; nil while nobody watches and after a break
	again   clock.Instant
	breaks  int // in a row
	turn    int
	pruning bool // a session has ended since the last look
	// attentive: run looks again within the silence that it bears, also if a watch begins meanwhile.
	attentive atomic.Bool
	// namespace is what a namespaced etcd client (clientv3/namespace) puts before its keys. Nothing tells it to us but
	// the keys of our own lease, so it is learned from the first of them.
	namespace      string
	namespaceKnown bool
}

const (
	// watchIdle is how long the stream is kept when nobody watches.
	watchIdle = 30 * time.Second
	// refusedPause is when a refused watch is tried again.
	refusedPause = time.Second
	// ordersLimit bounds the orders that wait for company.
	ordersLimit = 64
)

// A watch is one subscription. Its subscriber's methods are called from the goroutines of streams; they must not block. The
// last call from a broken stream can overlap the first from the next.
type watch struct {
	id         int64
	key, end   string // end "": the key alone
	going      bool   // only the deletion of the key counts
	subscriber subscriber
	// The watch ends with the session. ownKey, under its lease, is the key by which a namespace can be learned.
	session *Session
	ownKey  string
	// sent is set while the current stream has been asked for the watch; guarded by watcher.mu.
	sent    bool
	refused clock.Instant // not before this instant again; 0: not refused
	warned  bool
}

type subscriber interface {
	// opened: from now on every event is seen, in order, until the next call of opened. What happened before is to be read.
	opened()
	// saw: events of one revision or of several, in order.
	saw(events []*mvccpb.Event)
}

func newWatcher(e *engine) *watcher {
	return &watcher{engine: e, wake: make(chan struct{}, 1), watches: make(map[int64]*watch), again: e.clk.Now(), turn: rand.IntN(1 << 16)}
}

// watch begins to follow key, or [key, end), until it is stopped or the session ends. ownKey is a key of the session.
func (w *watcher) watch(s *Session, key, end, ownKey string, to subscriber) *watch {
	return w.begin(&watch{key: key, end: end, subscriber: to, session: s, ownKey: ownKey})
}

// watchGoing begins to wait for the deletion of key: what is put there is not told.
func (w *watcher) watchGoing(s *Session, key, ownKey string, to subscriber) *watch {
	return w.begin(&watch{key: key, going: true, subscriber: to, session: s, ownKey: ownKey})
}

func (w *watcher) begin(sub *watch) *watch {
	w.mu.Lock()
	w.lastID++
	sub.id = w.lastID
	if sub.session.ended() {
		w.mu.Unlock()
		return sub // whoever waits for it knows of the end
	}
	w.watches[sub.id] = sub
	stream, first := w.stream, len(w.watches) == 1
	if stream != nil {
		stream.orders = append(stream.orders, sub.id)
		stream.link.kick()
	}
	w.mu.Unlock()
	if stream == nil || first && !w.attentive.Load() { // a stream that nobody used is not known to answer
		w.kick()
	}
	return sub
}

// stop ends a watch. A call of its subscriber may still be under way.
func (w *watcher) stop(sub *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopLocked(sub)
}

func (w *watcher) stopLocked(sub *watch) {
	if w.watches[sub.id] != sub {
		return
	}
	delete(w.watches, sub.id)
	if sub.sent && w.stream != nil {
		w.stream.orders = append(w.stream.orders, -sub.id)
		if !sub.going || len(w.stream.orders) > ordersLimit {
			w.stream.link.kick()
		} // else it costs the server next to nothing, and goes with the next order or look
	}
}

// prune ends the watches of sessions that have ended, soon.
func (w *watcher) prune() {
	w.mu.Lock()
	w.pruning = true
	w.mu.Unlock()
	w.kick()
}

func (w *watcher) pruneLocked() {
	if !w.pruning {
		return
	}
	w.pruning = false
	for _, sub := range w.watches {
		if sub.session.ended() {
			w.stopLocked(sub)
		}
	}
}

func (w *watcher) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run opens the stream when somebody watches, and looks after it.
func (w *watcher) run() {
	timer := time.NewTimer(watchIdle)
	defer timer.Stop()
	for {
		timer.Reset(w.attend())
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.engine.ctx.Done():
			return
		}
	}
}

// attend does what is to be done now and returns how long there is nothing to do.
func (w *watcher) attend() time.Duration {
	silence := w.engine.keeper.shortestTerm() / 8
	silence = min(max(silence, 200*time.Millisecond), 3*time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pruneLocked()
	now := w.engine.clk.Now()
	s := w.stream
	w.attentive.Store(s != nil)
	if s == nil {
		if len(w.watches) == 0 {
			return watchIdle
		}
		if wait := w.again.Sub(now); wait > 0 {
			return wait
		}
		w.openLocked(now)
		return silence
	}
	if len(s.orders) > 0 {
		s.link.kick()
	}
	if len(w.watches) == 0 {
		idle := now.Sub(s.heard)
		if idle < 4*silence {
			return silence // it is in use, and will be used again
		}
		w.attentive.Store(false)
		if idle < watchIdle {
			return watchIdle - idle
		}
		w.breakLocked(s)
		w.breaks, w.again = 0, now
		return watchIdle
	}
	retry := w.retryRefusedLocked(now)
	if wait := silence - now.Sub(s.heard); wait > 0 {
		return min(wait, retry)
	}
	if s.asked == 0 {
		s.asked = now
		s.progress = true
		s.link.kick()
		return min(2*silence, retry)
	}
	if wait := 2*silence - now.Sub(s.asked); wait > 0 {
		return min(wait, retry)
	}
	w.engine.journal.info("leasehold: a watch stream does not answer: moving to another member", zap.String("endpoint", s.link.endpoint))
	w.breakLocked(s)
	w.openLocked(now)
	return silence
}

// retryRefusedLocked asks again for watches that were refused a while ago, and returns how long there is none.
func (w *watcher) retryRefusedLocked(now clock.Instant) time.Duration {
	wait := watchIdle
	for _, sub := range w.watches {
		switch {
		case sub.refused == 0:
		case sub.refused <= now:
			sub.refused = 0
			w.stream.orders = append(w.stream.orders, sub.id)
			w.stream.link.kick()
		default:
			wait = min(wait, sub.refused.Sub(now))
		}
	}
	return wait
}

func (w *watcher) openLocked(now clock.Instant) {
	endpoints := w.engine.client.Endpoints()
	if len(endpoints) == 0 { // SetEndpoints can do that
		w.backOffLocked()
		return
	}
	s := &watchStream{watcher: w, heard: now}
	for id, sub := range w.watches {
		sub.sent, sub.refused = false, 0
		s.orders = append(s.orders, id)
	}
	s.link = startLink(w.engine, endpoints[w.turn%len(endpoints)], s)
	w.turn++
	w.stream = s
}

func (w *watcher) breakLocked(s *watchStream) {
	s.dead = true
	s.link.cancel()
	if w.stream == s {
		w.stream = nil
	}
}
