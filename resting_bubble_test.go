// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"sync"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"

	"example.com/leasehold/internal/etcdfake"
)

// Clients that take turns stand behind the same key each time. Then a hand-over costs the two transactions of the one that takes
// its turn and one read, and no watch.
func TestWait_TurnsInTheSameOrderKeepTheirWatches(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		const clients, turns = 5, 100
		watches, txns := r.calls("Watch/Watch"), r.calls("KV/Txn")
		start := time.Now()
		var wg sync.WaitGroup
		for range clients {
			m := r.another()
			m.delay(time.Millisecond, time.Millisecond)
			s := m.open(Config{})
			wg.Go(func() {
				for range turns {
					g, err := s.Lock(r.Context(), "a")
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Millisecond)
					if err := g.Release(r.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := watches(); n > 10*clients {
			r.Errorf("%d requests for watches in %d turns", n, clients*turns)
		}
		if n := txns(); n > clients*turns*3+10*clients {
			r.Errorf("%d transactions in %d turns, want 3 for each", n, clients*turns)
		}
		if each := time.Since(start) / (clients * turns); each > 10*time.Millisecond {
			r.Errorf("a turn took %v", each)
		}
	})
}

// What a watch was told before it rested may concern whoever takes it over: it stood behind the key already then.
func TestWatcher_ARestingWatchTellsWhatItWasTold(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		w := s.engine.watcher
		first, second := &place{session: s, token: 1}, &place{session: s, token: 2}
		r.lock(s, "held") // what is watched for, so that the stream opens
		sub, since := w.watchGoing(s, "key", first)
		if since != 0 {
			r.Fatalf("a new watch is told to have begun before: %d", since)
		}
		r.quiet()
		w.mu.Lock()
		stream := w.stream
		w.mu.Unlock()
		stream.received(stream.link, &pb.WatchResponse{
			Header: &pb.ResponseHeader{ClusterId: s.engine.mark.cluster}, WatchId: sub.id,
			Events: []*mvccpb.Event{{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: []byte("key"), ModRevision: 7}}},
		})
		w.stop(sub)
		if again, since := w.watchGoing(s, "key", second); again != sub || since != 7 {
			r.Errorf("taken over: the same watch %v, last told of revision %d; want it, and 7", again == sub, since)
		}
		w.stop(sub)
		_, err := r.cluster.Put("key", "", 0)
		r.must(err)
		_, err = r.cluster.Delete("key")
		r.must(err)
		r.quiet()
		if again, _ := w.watchGoing(s, "key", second); again == sub {
			r.Error("a watch that was told something while it rested is still there")
		}
	})
}

// Nothing rests for ever, nor without bound.
func TestWatcher_RestingWatchesEnd(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		w := s.engine.watcher
		r.lock(s, "held")
		var subs []*watch
		for i := range 2 * restLimit {
			sub, _ := w.watchGoing(s, string(rune('A'+i)), &place{session: s})
			subs = append(subs, sub)
		}
		r.quiet()
		for _, sub := range subs {
			w.stop(sub)
		}
		r.quiet()
		count := func() (resting, all int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.resting), len(w.watches)
		}
		if resting, all := count(); resting != restLimit || all > restLimit+1 {
			r.Errorf("%d watches rest of %d, want %d", resting, all, restLimit)
		}
		time.Sleep(10 * time.Second)
		if resting, all := count(); resting != 0 || all > 1 {
			r.Errorf("%d watches rest of %d, after ten seconds", resting, all)
		}
	})
}

// A watch that rests may have begun after the key had gone for which it is taken over: it has nothing to tell of that.
func TestWait_ARestingWatchThatBeganTooLateIsNotTrusted(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{TTL: time.Minute})
		w := s.engine.watcher
		for _, key := range []string{"a/first", "a/ahead"} {
			r.must(second(r.cluster.Put(defaultPrefix+key, "", 0)))
		}
		s.load.Add(1)
		p := s.newPlace("a", "")
		defer p.leave()
		a, err := p.join(r.Context())
		r.must(err)
		r.must(second(r.cluster.Delete(defaultPrefix + "a/ahead")))
		sub, _ := w.watchGoing(s, defaultPrefix+"a/ahead", &place{session: s})
		r.quiet()
		w.stop(sub)
		got := make(chan error, 1)
		go func() { got <- p.wait(r.Context(), a) }()
		r.quiet()
		start := time.Now()
		r.must(second(r.cluster.Delete(defaultPrefix + "a/first")))
		r.must(r.result("the waiter", got))
		if d := time.Since(start); d > 100*time.Millisecond {
			r.Errorf("told %v after nobody was ahead", d)
		}
	})
}
