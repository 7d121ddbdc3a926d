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
// States of a watch: wanted (to be created on the current stream), created, refused (to be tried again later), resting (created, and
// wanted by nobody any more). The server answers creations in the order in which they were sent, also those that it refuses, whose
// answers carry no id.
//
// Resting. Clients that want a name again and again come in the same order each time, behind the same key. So a waiter's watch on the
// key ahead is kept for a while: whoever of this client comes to stand behind that key again has a watch that began before it came, and
// has nothing to read. What it may have missed is the deletion that was told between its own put and its taking over; so the watch
// remembers the last one. A watch that is told something while it rests does not fit that pattern, and ends.
//
// Silence. Nothing distinguishes a quiet line from a dead member, so the watcher asks for progress when it has heard
// nothing for a while, and takes an unanswered question as a break.
type watcher struct {
	engine *engine
	wake   bell

	mu      sync.Mutex
	watches map[int64]*watch  // the resting ones too
	resting map[string]*watch // by key
	lastID  int64
	stream  *watchStream // open or opening; nil while nobody watches and after a break
	again   clock.Instant
	breaks  int  // in a row
	told    bool // the log knows of the trouble
	turn    int
	pruning bool // a session has ended since the last look
	// attentive: run looks again within the silence that it bears, also if a watch begins meanwhile.
	attentive atomic.Bool
	// namespace is what a namespaced etcd client (clientv3/namespace) puts before its keys. Nothing tells it to us but
	// the keys of our own lease, so it is learned from those of the first session that watches.
	namespace      string
	namespaceKnown bool
}

const (
	// watchIdle is how long the stream is kept when nobody watches.
	watchIdle = 30 * time.Second
	// refusedPause is when a refused watch is tried again.
	refusedPause = time.Second
	// ordersLimit bounds the orders that wait for company, restLimit the watches that rest, and restFor for how long.
	ordersLimit, restLimit, restFor = 64, 64, 3 * time.Second
)

// A watch is one subscription. Its subscriber's methods are called from the goroutines of streams; they must not block. The
// last call from a broken stream can overlap the first from the next.
type watch struct {
	id         int64
	key, end   string // end "": the key alone
	going      bool   // only the deletion of the key counts
	subscriber subscriber
	session    *Session // with which the watch ends
	// sent is set while the current stream has been asked for the watch; guarded by watcher.mu.
	sent    bool
	created bool          // and it has been created there
	resting bool          // and nobody wants it
	rests   clock.Instant // since when
	gone    int64         // the revision at which it began, or of the last deletion that it was told of since
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
	return &watcher{engine: e, wake: newBell(), watches: make(map[int64]*watch), resting: make(map[string]*watch), again: e.clk.Now(), turn: rand.IntN(1 << 16)}
}

// watch begins to follow key, or [key, end), until it is stopped or the session, which has a place somewhere, ends.
func (w *watcher) watch(s *Session, key, end string, to subscriber) *watch {
	return w.begin(&watch{key: key, end: end, subscriber: to, session: s})
}

// watchGoing begins to wait for the deletion of key: what is put there is not told. If since is not 0, the watch has been on for longer,
// opened will not be called, and since is the revision at which it began, or of the last deletion that it was told of since: who came
// to stand behind the key later has missed nothing.
func (w *watcher) watchGoing(s *Session, key string, to subscriber) (sub *watch, since int64) {
	w.mu.Lock()
	if sub = w.resting[key]; sub != nil && !s.ended() {
		w.wakeLocked(sub)
		sub.subscriber, sub.session = to, s
		since = sub.gone
	} else {
		sub = nil
	}
	w.mu.Unlock()
	if sub == nil {
		sub = w.begin(&watch{key: key, going: true, subscriber: to, session: s})
	}
	return sub, since
}

// wakeLocked ends the rest of a watch.
func (w *watcher) wakeLocked(sub *watch) {
	delete(w.resting, sub.key)
	sub.resting = false
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

// stop ends a watch, or lets it rest. A call of its subscriber may still be under way.
func (w *watcher) stop(sub *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if sub.going && sub.created && sub.refused == 0 && w.watches[sub.id] == sub && w.stream != nil && w.resting[sub.key] == nil && len(w.resting) < restLimit {
		w.resting[sub.key] = sub
		sub.resting, sub.rests, sub.subscriber = true, w.engine.clk.Now(), nil
		return
	}
	w.stopLocked(sub)
}

func (w *watcher) stopLocked(sub *watch) {
	if w.watches[sub.id] != sub {
		return
	}
	if sub.resting {
		w.wakeLocked(sub)
	}
	delete(w.watches, sub.id)
	if sub.sent && w.stream != nil {
		w.stream.orders = append(w.stream.orders, -sub.id)
		if !sub.going || len(w.stream.orders) > ordersLimit {
			w.stream.link.kick()
		} // else it costs the server next to nothing, and goes with the next order or look
	}
}

// tireLocked ends the watches that have rested for long, or all.
func (w *watcher) tireLocked(now clock.Instant, all bool) {
	for _, sub := range w.resting {
		if all || now.Sub(sub.rests) > restFor {
			w.stopLocked(sub)
		}
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

func (w *watcher) kick() { w.wake.ring() }

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
	w.tireLocked(now, s == nil)
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
	w.tellLocked("leasehold: a watch stream does not answer: moving to another member", zap.String("endpoint", s.link.endpoint))
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
	w.tireLocked(now, true)
	for id, sub := range w.watches {
		sub.sent, sub.created, sub.refused = false, false, 0
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
