// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// patience bounds every wait. It is spent by tests that fail only, so that it can be long.
const patience = time.Minute

// A replica of the service under test.
type replica struct {
	*Scheduler
	client *leaseholdtest.Client
}

// start runs a replica until the test ends. It has an etcd client of its own, so that it can be cut off by itself.
func start(t *testing.T, cluster *leaseholdtest.Cluster, journal Journal, address string) *replica {
	client := cluster.Client(t)
	s, err := New(client.Client, journal, Config{Address: address, TTL: 2 * time.Second, Every: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- s.Run(t.Context()) }() // ends before the clean-up begins
	t.Cleanup(func() {
		if err := <-ran; err != nil {
			t.Errorf("replica %s: %v", address, err)
		}
	})
	return &replica{s, client}
}

// memory is a journal in memory. It stands for a table behind sqlfence, or whatever the service writes to.
type memory struct {
	mu      sync.Mutex
	fence   leasehold.Fence
	entries []entry
}

type entry struct {
	address string
	token   leasehold.Token
}

func (m *memory) Append(_ context.Context, token leasehold.Token, address string) error {
	m.mu.Lock() // the check and the write are one step
	defer m.mu.Unlock()
	if err := m.fence.Check("journal", token); err != nil {
		return err
	}
	m.entries = append(m.entries, entry{address, token})
	return nil
}

// wrote tells whether a replica has written anything.
func (m *memory) wrote(address string) bool { return m.last(address) != 0 }

// last is the token of the last entry of a replica; 0 if there is none.
func (m *memory) last(address string) (token leasehold.Token) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.entries {
		if e.address == address {
			token = e.token
		}
	}
	return token
}

func TestScheduler_AnotherReplicaTakesOverWhenTheLeaderIsCutOff(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	journal := &memory{}

	a := start(t, cluster, journal, "a")
	var first *leasehold.Leadership // to be looked at when it has ended
	leaseholdtest.Eventually(t, patience, "a leads and works", func() bool {
		first = a.elector.Leadership()
		return first != nil && journal.wrote("a")
	})
	b := start(t, cluster, journal, "b")

	a.client.Blackhole(leaseholdtest.Both) // nothing is reset, nobody is told
	leaseholdtest.Eventually(t, patience, "b leads", b.elector.IsLeader)
	if first.Valid() || first.Context().Err() == nil {
		t.Error("a believes that it leads although b does")
	}
	leaseholdtest.Eventually(t, patience, "b works", func() bool { return journal.wrote("b") })
	if old, now := journal.last("a"), journal.last("b"); now <= old {
		t.Errorf("b has token %v, want more than a's %v", now, old)
	}

	a.client.Heal()
	leaseholdtest.Eventually(t, patience, "a knows its successor", func() bool {
		return a.elector.Leader().Token > first.Token()
	})
}

// A stuck journal lets the first write reach the resource when the test says so, however long that takes.
type stuck struct {
	memory

	arrived chan struct{} // closed when the first write has been sent
	release chan struct{} // closed by the test
	outcome chan error    // of the first write
	once    sync.Once
}

func (s *stuck) Append(ctx context.Context, token leasehold.Token, address string) error {
	first := false
	s.once.Do(func() { first = true })
	if !first {
		return s.memory.Append(ctx, token, address)
	}
	close(s.arrived)
	<-s.release // ctx ends meanwhile: a process that stands still does not notice
	err := s.memory.Append(ctx, token, address)
	s.outcome <- err
	return err
}

func TestScheduler_AWriteThatComesAfterTheTakeoverIsRefused(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	journal := &stuck{arrived: make(chan struct{}), release: make(chan struct{}), outcome: make(chan error, 1)}

	a := start(t, cluster, journal, "a")
	<-journal.arrived // a leads, and is between its check and its write
	start(t, cluster, journal, "b")
	a.client.Blackhole(leaseholdtest.Both)
	leaseholdtest.Eventually(t, patience, "b works", func() bool { return journal.wrote("b") })

	close(journal.release)
	if err := <-journal.outcome; !errors.Is(err, leasehold.ErrStaleToken) {
		t.Errorf("the late write of a: %v, want it refused", err)
	}
	if journal.wrote("a") {
		t.Error("the late write of a has changed something")
	}
	a.client.Heal() // so that it can end in the orderly way
}

func TestWork_StopsWithItsContextAndWhenItIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time in here passes at once
		journal := &memory{}
		s := &Scheduler{journal: journal, config: Config{Address: "a", Every: time.Minute}}

		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		s.work(ctx, 7) // returns, or the test hangs
		if n := len(journal.entries); n != 3 {
			t.Errorf("%d entries in two and a half minutes, want 3", n)
		}

		if err := journal.Append(ctx, 8, "b"); err != nil { // the successor
			t.Fatal(err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s.work(ctx, 7) // returns although its context goes on
		if n := len(journal.entries); ctx.Err() != nil || n != 4 {
			t.Errorf("%d entries, context %v; want no entry after the successor's, and an end at the refusal", n, ctx.Err())
		}
	})
}
