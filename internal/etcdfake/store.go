// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"maps"
	"slices"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// store is the replicated key space with its whole history: compaction only forbids reading what is old, so that a
// member can lag, and the cluster be rolled back, at any time. Every method needs the cluster's mutex. Key-values
// handed out are shared and never changed.
type store struct {
	rev       int64 // 1 when nothing was ever written, as in etcd
	compacted int64 // -1 until the first compaction
	hist      map[string][]version
	live      []string          // the keys that exist now, in order
	log       [][]*mvccpb.Event // log[i] is what revision i+2 changed
}

// version is what one revision made of a key; kv is nil where it was deleted.
type version struct {
	rev int64
	kv  *mvccpb.KeyValue
}

func newStore() *store {
	return &store{rev: 1, compacted: -1, hist: make(map[string][]version)}
}

// span is a range of keys in etcd's three forms: one key, up to an end, or from a key on.
type span struct {
	key, end string
	single   bool
	open     bool // no end
}

func spanOf(key, end []byte) span {
	s := span{key: string(key), end: string(end)}
	s.single = len(end) == 0
	s.open = len(end) == 1 && end[0] == 0
	return s
}

func (s span) contains(key string) bool {
	switch {
	case s.single:
		return key == s.key
	case s.open:
		return key >= s.key
	default:
		return key >= s.key && key < s.end
	}
}

// at returns the key-value as of a revision, nil if there was none.
func (s *store) at(key string, rev int64) *mvccpb.KeyValue {
	h := s.hist[key]
	i := sort.Search(len(h), func(i int) bool { return h[i].rev > rev })
	if i == 0 {
		return nil
	}
	return h[i-1].kv
}

// scan returns the key-values of a span as of a revision, ordered by key.
func (s *store) scan(sp span, rev int64) []*mvccpb.KeyValue {
	if sp.single {
		if kv := s.at(sp.key, rev); kv != nil {
			return []*mvccpb.KeyValue{kv}
		}
		return nil
	}
	var kvs []*mvccpb.KeyValue
	if rev >= s.rev {
		for _, key := range s.live[sort.SearchStrings(s.live, sp.key):] {
			if !sp.contains(key) {
				break
			}
			kvs = append(kvs, s.at(key, rev))
		}
		return kvs
	}
	for _, key := range slices.Sorted(maps.Keys(s.hist)) {
		if !sp.contains(key) {
			continue
		}
		if kv := s.at(key, rev); kv != nil {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// eventsOf returns what a revision changed.
func (s *store) eventsOf(rev int64) []*mvccpb.Event {
	if rev < 2 || rev-2 >= int64(len(s.log)) {
		return nil
	}
	return s.log[rev-2]
}

func (s *store) compact(rev int64) error {
	switch {
	case rev <= s.compacted:
		return rpctypes.ErrGRPCCompacted
	case rev > s.rev:
		return rpctypes.ErrGRPCFutureRev
	}
	s.compacted = rev
	return nil
}

// rollBack forgets every revision above rev.
func (s *store) rollBack(rev int64) {
	for key, h := range s.hist {
		i := sort.Search(len(h), func(i int) bool { return h[i].rev > rev })
		if i == 0 {
			delete(s.hist, key)
			continue
		}
		s.hist[key] = slices.Clip(h[:i])
	}
	s.rev = rev
	s.log = slices.Clip(s.log[:rev-1])
	if s.compacted > rev {
		s.compacted = -1
	}
	s.live = nil
	for key, h := range s.hist {
		if h[len(h)-1].kv != nil {
			s.live = append(s.live, key)
		}
	}
	slices.Sort(s.live)
}

// write is one change of the store in the making: everything in it happens at one revision, and later steps see
// earlier ones.
type write struct {
	s       *store
	changes []*mvccpb.Event
	attach  func(key string, before, after int64) // told of every change of a key's lease
}

func (s *store) write(attach func(key string, before, after int64)) *write {
	return &write{s: s, attach: attach}
}

// rev is the revision that reads inside of the write see.
func (w *write) rev() int64 {
	if len(w.changes) > 0 {
		return w.s.rev + 1
	}
	return w.s.rev
}

func (w *write) put(key string, value []byte, lease int64) {
	rev := w.s.rev + 1
	kv := &mvccpb.KeyValue{Key: []byte(key), Value: value, CreateRevision: rev, ModRevision: rev, Version: 1, Lease: lease}
	before := int64(0)
	if prev := w.s.at(key, rev); prev != nil {
		kv.CreateRevision, kv.Version = prev.CreateRevision, prev.Version+1
		before = prev.Lease
	} else {
		i, _ := slices.BinarySearch(w.s.live, key)
		w.s.live = slices.Insert(w.s.live, i, key)
	}
	w.s.hist[key] = append(w.s.hist[key], version{rev, kv})
	w.changes = append(w.changes, &mvccpb.Event{Type: mvccpb.Event_PUT, Kv: kv})
	if before != lease {
		w.attach(key, before, lease)
	}
}

func (w *write) delete(sp span) (deleted []*mvccpb.KeyValue) {
	rev := w.s.rev + 1
	for _, kv := range w.s.scan(sp, rev) {
		key := string(kv.Key)
		i, _ := slices.BinarySearch(w.s.live, key)
		w.s.live = slices.Delete(w.s.live, i, i+1)
		w.s.hist[key] = append(w.s.hist[key], version{rev, nil})
		gone := &mvccpb.KeyValue{Key: kv.Key, ModRevision: rev}
		w.changes = append(w.changes, &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: gone})
		if kv.Lease != 0 {
			w.attach(key, kv.Lease, 0)
		}
		deleted = append(deleted, kv)
	}
	return deleted
}

// commit makes the changes, if any, the next revision.
func (w *write) commit() {
	if len(w.changes) > 0 {
		w.s.rev++
		w.s.log = append(w.s.log, w.changes)
	}
}

// view is the store as a request sees it: up to a revision, or inside of a write.
type view struct {
	s   *store
	rev func() int64
}

func (s *store) upTo(rev int64) view { return view{s, func() int64 { return rev }} }

func (w *write) view() view { return view{w.s, w.rev} }

// check refuses revisions that cannot be read, as a transaction does before it starts.
func (v view) check(rev int64) error {
	switch {
	case rev > v.rev():
		return rpctypes.ErrGRPCFutureRev
	case rev != 0 && rev < v.s.compacted:
		return rpctypes.ErrGRPCCompacted
	}
	return nil
}

// header starts an answer's header; the member that answers fills in the rest.
func header(rev int64) *pb.ResponseHeader { return &pb.ResponseHeader{Revision: rev} }
