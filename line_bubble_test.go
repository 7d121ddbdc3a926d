// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// The line is served in the order of the keys' create revisions, across sessions and machines.
func TestLock_TheLineIsServedInOrder(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3, CommitLatency: time.Millisecond}, func(r *rig) {
		holder := r.lock(r.open(Config{}), "a")
		type turn struct {
			who   int
			token Token
		}
		var turns []turn
		done := make(chan struct{})
		const waiters = 9
		for i := range waiters {
			m := r.another()
			m.delay(time.Duration(1+i%4)*time.Millisecond, time.Duration(1+i%3)*time.Millisecond)
			s := m.open(Config{})
			go func() {
				g := r.lock(s, "a")
				turns = append(turns, turn{i, g.Token()}) // one holder at a time
				r.must(g.Release(r.Context()))
				done <- struct{}{}
			}()
			time.Sleep(100 * time.Millisecond)
		}
		r.must(holder.Release(r.Context()))
		for range waiters {
			<-done
		}
		last := holder.Token()
		for i, turn := range turns {
			if turn.who != i || turn.token <= last {
				r.Fatalf("turns %v", turns)
			}
			last = turn.token
		}
		if keys := r.cluster.Keys(""); len(keys) != 0 {
			r.Errorf("keys left: %v", keys)
		}
	})
}

// Scenario 17: two goroutines of one session exclude each other, each acquisition with a token of its own.
func TestLock_GoroutinesOfOneSessionExcludeEachOther(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		var tokens []Token
		held := 0
		done := make(chan struct{})
		for range 20 {
			go func() {
				g := r.lock(s, "a")
				if held++; held > 1 {
					r.Error("two holders")
				}
				tokens = append(tokens, g.Token())
				time.Sleep(time.Millisecond)
				held--
				r.must(g.Release(r.Context()))
				done <- struct{}{}
			}()
		}
		for range 20 {
			<-done
		}
		if !slices.IsSorted(tokens) || len(slices.Compact(slices.Clone(tokens))) != 20 {
			r.Errorf("tokens %v", fmt.Sprint(tokens))
		}
	})
}

// A hand-over costs one way from the holder to etcd and one back to whoever is next, between machines and within one.
func TestLock_HandsOverInOneRoundTrip(t *testing.T) {
	for name, same := range map[string]bool{"between machines": false, "within a session": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3, CommitLatency: time.Millisecond}, func(r *rig) {
				r.delay(10*time.Millisecond, 15*time.Millisecond)
				s := r.open(Config{})
				holder := r.lock(s, "a")
				next, waiter := s, r
				if !same {
					waiter = r.another()
					waiter.delay(10*time.Millisecond, 15*time.Millisecond)
					next = waiter.open(Config{})
				}
				got := make(chan error, 1)
				var taken time.Time
				go func() {
					_, err := next.Lock(r.Context(), "a")
					taken = time.Now()
					got <- err
				}()
				time.Sleep(3 * time.Second)
				txns := r.calls("KV/Txn")
				start := time.Now()
				r.must(holder.Release(r.Context()))
				r.must(r.result("the next", got))
				if d := taken.Sub(start); d != 26*time.Millisecond {
					r.Errorf("handed over in %v, want 26ms", d)
				}
				if n := txns(); n != 1 {
					r.Errorf("%d transactions and reads for a hand-over, want the release alone", n)
				}
			})
		})
	}
}

// R7: a release hands over to the neighbour only if that one's own key is still there.
func TestLock_IsNotHandedOverToANeighbourWhoseKeyHasGone(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.delay(20*time.Millisecond, 100*time.Millisecond)
		s := r.open(Config{})
		holder := r.lock(s, "a")
		got := make(chan error, 1)
		go func() { got <- second(s.Lock(r.Context(), "a")) }()
		time.Sleep(300 * time.Millisecond) // in line, but not yet with a watch on its own key
		line := r.cluster.Keys(lineDir(defaultPrefix, "a"))
		if len(line) != 2 {
			r.Fatalf("%d in line, want 2", len(line))
		}
		time.AfterFunc(10*time.Millisecond, func() { _, _ = r.cluster.Delete(string(line[1].Key)) }) // overtakes the release
		r.must(holder.Release(r.Context()))
		if err := r.result("the neighbour", got); !errors.Is(err, ErrRevoked) {
			r.Errorf("the neighbour: %v, want ErrRevoked", err)
		}
	})
}

// R7: a waiter that has asked for a watch of the line knows nothing before it has read the line, however long the watch takes to open.
func TestLock_AWaiterIsNotFirstBeforeItHasReadTheLine(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		other := r.another()
		holder := r.lock(other.open(Config{TTL: time.Minute}), "a")
		s := r.open(Config{TTL: time.Minute})
		r.delay(400*time.Millisecond, 400*time.Millisecond)
		got := make(chan error, 1)
		go func() { got <- second(s.Lock(r.Context(), "a")) }()
		time.Sleep(20 * time.Second)
		select {
		case err := <-got:
			r.Fatalf("Lock returned %v while another holds the lock, valid %v", err, holder.Valid())
		default:
		}
		start := time.Now()
		r.must(holder.Release(r.Context()))
		r.must(r.result("the waiter", got))
		if d := time.Since(start); d != 400*time.Millisecond {
			r.Errorf("handed over in %v, want the 400ms of the way", d)
		}
	})
}

// R7: of a line of three, the one in the middle gives up. The last is told that the key ahead of it has gone, and is not first.
func TestLock_APlaceAheadThatGoesIsNotTheLastOne(t *testing.T) {
	for name, same := range map[string]bool{"machines": false, "goroutines": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				machine := func() *Session {
					if same {
						return r.open(Config{TTL: time.Minute})
					}
					return r.another().open(Config{TTL: time.Minute})
				}
				holder := r.lock(machine(), "a")
				giveUp, cancel := context.WithCancel(r.Context())
				defer cancel()
				middle, last := make(chan error, 1), make(chan error, 1)
				go func() { middle <- second(machine().Lock(giveUp, "a")) }()
				time.Sleep(3 * time.Second)
				go func() { last <- second(machine().Lock(r.Context(), "a")) }()
				time.Sleep(3 * time.Second)
				cancel()
				if err := r.result("the middle one", middle); !errors.Is(err, context.Canceled) {
					r.Errorf("the middle one: %v", err)
				}
				time.Sleep(3 * time.Second)
				select {
				case err := <-last:
					r.Fatalf("the last one returned %v while the first holds the lock, valid %v", err, holder.Valid())
				default:
				}
				r.must(holder.Release(r.Context()))
				r.quiet()
				r.must(r.result("the last one", last))
			})
		})
	}
}

// Scenario 10: what breaks a waiter's watch does not cost it its place, nor make it miss its turn.
func TestLock_TheWaitSurvivesWhatBreaksItsWatch(t *testing.T) {
	for name, upset := range map[string]func(r *rig){
		"reset": func(r *rig) {
			for i := range 3 {
				r.cluster.Link(r.client, i).Reset()
			}
		},
		"compaction": func(r *rig) {
			for range 10 {
				r.must(second(r.cluster.Put("filler", "x", 0)))
			}
			r.must(r.cluster.Compact(r.cluster.Revision()))
		},
		"reset and compaction": func(r *rig) {
			for i := range 3 {
				r.cluster.Link(r.client, i).Reset()
			}
			r.must(second(r.cluster.Put("filler", "x", 0)))
			r.must(r.cluster.Compact(r.cluster.Revision()))
		},
		"members restarted": func(r *rig) {
			for i := range 3 {
				r.cluster.Member(i).Restart()
				time.Sleep(2 * time.Second)
			}
		},
	} {
		for _, ahead := range []int{1, 2, 4} {
			t.Run(fmt.Sprintf("%s, %d ahead", name, ahead), func(t *testing.T) {
				bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
					other := r.another()
					var line []*Grant
					lines := make(chan *Grant, ahead)
					for range ahead {
						go func() { lines <- other.lock(other.open(Config{TTL: time.Minute}), "a") }()
						time.Sleep(10 * time.Millisecond)
					}
					line = append(line, <-lines)
					s := r.open(Config{TTL: time.Minute})
					got := make(chan error, 1)
					go func() { got <- second(s.Lock(r.Context(), "a")) }()
					time.Sleep(3 * time.Second)
					mine := r.cluster.Keys(lineDir(defaultPrefix, "a"))[ahead]
					for range 3 {
						upset(r)
						time.Sleep(2 * time.Second)
					}
					for i := range ahead {
						upset(r)
						r.must(line[i].Release(r.Context()))
						if i < ahead-1 {
							line = append(line, <-lines)
						}
					}
					start := time.Now()
					r.must(r.result("the waiter", got))
					if d := time.Since(start); d > 2*time.Second {
						r.Errorf("its turn was noticed after %v", d)
					}
					if keys := r.cluster.Keys(lineDir(defaultPrefix, "a")); len(keys) != 1 || keys[0].CreateRevision != mine.CreateRevision {
						r.Errorf("the place in line was not kept: %v", keys)
					}
				})
			})
		}
	}
}

// Scenario 12: the watch sits on a member that is cut off from the others while the lease is renewed elsewhere. Nobody leaves a free
// lock alone.
func TestLock_AWatchOnACutOffMemberLeavesNoLockFree(t *testing.T) {
	for name, tc := range map[string]struct {
		cut  func(m *etcdfake.Member)
		soon time.Duration
	}{
		"isolated": {(*etcdfake.Member).Isolate, 10 * time.Second}, // the stream requires a leader, so the member ends it
		"silent":   {(*etcdfake.Member).Blackhole, 15 * time.Second},
		"paused":   {(*etcdfake.Member).Pause, 15 * time.Second},
		"lagging":  {func(m *etcdfake.Member) { m.SetLag(time.Hour) }, time.Minute}, // nothing shows it but a look at the line
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				other := r.another()
				holder := r.lock(other.open(Config{TTL: time.Minute}), "a")
				s := r.open(Config{TTL: time.Minute})
				got := make(chan error, 1)
				go func() { got <- second(s.Lock(r.Context(), "a")) }()
				time.Sleep(3 * time.Second)
				r.quiet()
				w := s.engine.watcher
				w.mu.Lock()
				endpoint := w.stream.link.endpoint
				w.mu.Unlock()
				tc.cut(r.cluster.Member(slices.Index(r.cluster.Endpoints(), endpoint)))
				time.Sleep(time.Second)
				r.must(holder.Release(r.within(5 * time.Second)))
				start := time.Now()
				r.must(r.result("the waiter", got))
				if d := time.Since(start); d > tc.soon {
					r.Errorf("the free lock was taken after %v, want %v", d, tc.soon)
				}
			})
		})
	}
}
