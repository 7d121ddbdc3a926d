// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

const (
	reasonDuplicateID = "mvcc: duplicate watch ID provided on the WatchStream"
	reasonEmptyRange  = "mvcc: watcher range is empty"
	invalidWatchID    = -1
)

// watchHub is the watchers of one member: those in step with it are told of each revision as the member applies it,
// those behind every 100 ms. Guarded by the cluster's mutex.
type watchHub struct {
	m       *Member
	streams []*watchStream
	phase   time.Duration // of the syncs, by true time since the start of the cluster
	started time.Time
	sync    *event
}

// watchStream is one gRPC stream and its watchers. What it sends is queued in order.
type watchStream struct {
	hub      *watchHub
	watchers []*watcher // oldest first
	nextID   int64
	queue    []*pb.WatchResponse
	queued   chan struct{} // holds a token while the queue may have something
	closed   bool
	opened   time.Time
	interval time.Duration // between progress notices
	ticker   *event
}

type watcher struct {
	id        int64
	span      span
	start     int64 // as asked for
	next      int64 // the first revision it has not been told of
	synced    bool
	compacted bool // ended by a compaction; its id stays taken until it is cancelled
	prevKV    bool
	noPut     bool
	noDelete  bool
	progress  bool // wants progress notices
	silent    bool // nothing was sent since the last tick
}

func (h *watchHub) init(m *Member) {
	h.m = m
	h.started = time.Now()
	h.phase = time.Duration(m.cluster.rng.Int64N(int64(watchSyncInterval)))
}

func (h *watchHub) openLocked() *watchStream {
	c := h.m.cluster
	iv := c.opts.ProgressInterval
	s := &watchStream{
		hub: h, queued: make(chan struct{}, 1), opened: time.Now(),
		interval: iv + time.Duration(c.rng.Int64N(int64(iv)/10+1)),
	}
	h.streams = append(h.streams, s)
	return s
}

func (s *watchStream) closeLocked() {
	s.closed = true
	s.hub.m.cluster.agenda.drop(s.ticker)
	s.hub.streams = slices.DeleteFunc(s.hub.streams, func(o *watchStream) bool { return o == s })
}

func (s *watchStream) sendLocked(r *pb.WatchResponse) {
	if r.Header == nil {
		r.Header = s.hub.m.headerLocked(s.hub.m.revLocked())
	}
	s.queue = append(s.queue, r)
	select {
	case s.queued <- struct{}{}:
	default:
	}
}

// takeLocked empties the queue.
func (s *watchStream) takeLocked() []*pb.WatchResponse {
	q := s.queue
	s.queue = nil
	return q
}

func (s *watchStream) refuseLocked(reason string) {
	s.sendLocked(&pb.WatchResponse{WatchId: invalidWatchID, Created: true, Canceled: true, CancelReason: reason})
}

func (s *watchStream) find(id int64) int {
	return slices.IndexFunc(s.watchers, func(w *watcher) bool { return w.id == id })
}

func (s *watchStream) createLocked(r *pb.WatchCreateRequest) {
	h := s.hub
	key := r.Key
	if len(key) == 0 {
		key = []byte{0}
	}
	sp := spanOf(key, r.RangeEnd)
	switch {
	case r.StartRevision < 0:
		s.refuseLocked(rpctypes.ErrCompacted.Error())
		return
	case !sp.single && !sp.open && sp.key >= sp.end:
		s.refuseLocked(reasonEmptyRange)
		return
	case r.WatchId != 0 && s.find(r.WatchId) >= 0:
		s.refuseLocked(reasonDuplicateID)
		return
	}
	w := &watcher{id: r.WatchId, span: sp, start: r.StartRevision, prevKV: r.PrevKv, progress: r.ProgressNotify}
	for _, f := range r.Filters {
		w.noPut = w.noPut || f == pb.WatchCreateRequest_NOPUT
		w.noDelete = w.noDelete || f == pb.WatchCreateRequest_NODELETE
	}
	if w.id == 0 {
		for s.find(s.nextID) >= 0 {
			s.nextID++
		}
		w.id = s.nextID
		s.nextID++
	}
	rev := h.m.revLocked()
	w.synced = r.StartRevision == 0 || r.StartRevision > rev
	w.next = r.StartRevision
	if w.synced {
		w.next = max(rev+1, r.StartRevision)
	}
	w.silent = true
	s.watchers = append(s.watchers, w)
	s.sendLocked(&pb.WatchResponse{WatchId: w.id, Created: true})
	if !w.synced {
		h.armSyncLocked()
	}
	if w.progress {
		s.armTickerLocked()
	}
}

func (s *watchStream) cancelLocked(id int64) {
	i := s.find(id)
	if i < 0 {
		return
	}
	s.watchers = slices.Delete(s.watchers, i, i+1)
	s.sendLocked(&pb.WatchResponse{WatchId: id, Canceled: true})
}

// progressAllLocked answers a progress request if every watcher of the stream is in step, and else not at all. A
// stream without watchers gets no answer either.
func (s *watchStream) progressAllLocked() {
	rev := s.hub.m.revLocked()
	for _, w := range s.watchers {
		if !w.synced || rev < w.start {
			return
		}
	}
	if len(s.watchers) > 0 {
		s.sendLocked(&pb.WatchResponse{WatchId: invalidWatchID})
	}
}

func (s *watchStream) armTickerLocked() {
	if s.ticker != nil {
		return
	}
	rounds := time.Since(s.opened)/s.interval + 1
	s.ticker = s.hub.m.cluster.agenda.at(s.opened.Add(rounds*s.interval), s.tickLocked)
}

func (s *watchStream) tickLocked() {
	s.ticker = nil
	again := false
	rev := s.hub.m.revLocked()
	for _, w := range s.watchers {
		if !w.progress {
			continue
		}
		again = true
		if w.silent && w.synced && rev >= w.start {
			s.sendLocked(&pb.WatchResponse{WatchId: w.id})
		}
		w.silent = true
	}
	if again && !s.closed {
		s.armTickerLocked()
	}
}

// notifyLocked tells the watchers in step of a revision.
func (h *watchHub) notifyLocked(rev int64) {
	events := h.m.cluster.store.eventsOf(rev)
	for _, s := range h.streams {
		for _, w := range s.watchers {
			if w.synced && rev >= w.next {
				s.deliverLocked(w, events, rev)
				w.next = rev + 1
			}
		}
	}
}

// deliverLocked sends a watcher what concerns it of some events, in one answer, or nothing. rev is the progress it tells.
func (s *watchStream) deliverLocked(w *watcher, events []*mvccpb.Event, rev int64) {
	var out []*mvccpb.Event
	for _, ev := range events {
		put := ev.Type == mvccpb.Event_PUT
		if !w.span.contains(string(ev.Kv.Key)) || put && w.noPut || !put && w.noDelete {
			continue
		}
		created := put && ev.Kv.CreateRevision == ev.Kv.ModRevision
		if before := ev.Kv.ModRevision - 1; w.prevKV && !created && before >= s.hub.m.cluster.store.compacted {
			ev = &mvccpb.Event{Type: ev.Type, Kv: ev.Kv, PrevKv: s.hub.m.cluster.store.at(string(ev.Kv.Key), before)}
		}
		out = append(out, ev)
	}
	if len(out) > 0 {
		w.silent = false
		s.sendLocked(&pb.WatchResponse{Header: s.hub.m.headerLocked(rev), WatchId: w.id, Events: out})
	}
}

func (h *watchHub) armSyncLocked() {
	if h.sync != nil {
		return
	}
	since := time.Since(h.started)
	rounds := max(0, since-h.phase)/watchSyncInterval + 1
	h.sync = h.m.cluster.agenda.at(h.started.Add(h.phase+rounds*watchSyncInterval), h.syncLocked)
}

// syncLocked brings watchers that are behind into step, or ends them if the history they want is gone.
func (h *watchHub) syncLocked() {
	h.sync = nil
	store, rev := h.m.cluster.store, h.m.revLocked()
	behind := false
	for _, s := range h.streams {
		for _, w := range s.watchers {
			if w.synced || w.compacted {
				continue
			}
			if w.next < store.compacted {
				w.compacted = true
				// The real one forgets the revision of this header.
				s.sendLocked(&pb.WatchResponse{
					Header: h.m.headerLocked(0), WatchId: w.id, Canceled: true, CompactRevision: store.compacted,
				})
				continue
			}
			var events []*mvccpb.Event
			last := min(rev, w.next+watchBatch-1)
			for r := w.next; r <= last; r++ {
				events = append(events, store.eventsOf(r)...)
			}
			s.deliverLocked(w, events, rev)
			w.next = last + 1
			w.synced = last == rev
			behind = behind || !w.synced
		}
	}
	if behind {
		h.armSyncLocked()
	}
}
