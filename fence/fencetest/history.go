// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// outcome is what a writer knows about a value that it wrote.
type outcome int

const (
	unknown outcome = iota
	accepted
	refused
)

// history is what the writers of one resource saw.
type history struct {
	resource string
	// attempted is the highest token of which a write began, settled the highest that was accepted and answered. Both
	// only rise; a write that begins with a token below settled must be refused.
	attempted, settled atomic.Int64

	mu       sync.Mutex
	outcomes map[string]attempt // by value
	lost     error              // the last error that left the outcome unknown
}

type attempt struct {
	token   leasehold.Token
	outcome outcome
}

func (s suite) testConcurrentWriters(t *testing.T) {
	subject := s.open(t)
	seed := s.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()

	histories := make([]*history, s.Resources)
	for i := range histories {
		histories[i] = &history{resource: fmt.Sprintf("%s/%d", t.Name(), i), outcomes: make(map[string]attempt)}
	}
	var definite, lost atomic.Int64
	server := &restarts{subject: subject, at: []int64{int64(s.Writes) / 3, int64(s.Writes) * 2 / 3}}

	var writers sync.WaitGroup
	for w := range s.Writers {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for n := 0; definite.Load() < int64(s.Writes) && ctx.Err() == nil && !t.Failed(); n++ {
				h := histories[rng.IntN(len(histories))]
				token := h.pick(rng)
				if h.write(ctx, t, subject, token, fmt.Sprintf("%d.%d", w, n)) {
					// One writer restarts the server while the others go on writing.
					server.restartAt(ctx, t, definite.Add(1))
					continue
				}
				if lost.Add(1) > int64(s.Writes) {
					t.Errorf("more than %d writes of unknown outcome, the last one: %v", s.Writes, h.lastLost())
				}
				server.await()
			}
		})
	}
	writers.Wait()
	if got := definite.Load(); got < int64(s.Writes) {
		t.Fatalf("only %d of %d writes were accepted or refused", got, s.Writes)
	}
	var total [3]int
	for _, h := range histories {
		h.verify(t, subject, &total)
	}
	t.Logf("%d accepted, %d refused, %d of unknown outcome, %d restarts", total[accepted], total[refused], total[unknown], server.count)
	if total[accepted] < s.Writes/10 || total[refused] < s.Writes/10 {
		t.Errorf("%d accepted and %d refused of %d: the run shows too little", total[accepted], total[refused], s.Writes)
	}
}

// pick returns a token near the highest so far: equal, a little higher, or some way below.
func (h *history) pick(rng *rand.Rand) leasehold.Token {
	highest := h.attempted.Load()
	switch p := rng.IntN(100); {
	case p < 45:
		return leasehold.Token(max(highest, 1))
	case p < 60:
		return leasehold.Token(highest + 1 + rng.Int64N(3))
	default:
		return leasehold.Token(max(highest-rng.Int64N(20), 1))
	}
}

// write makes one write and notes its outcome; it reports whether that is known.
func (h *history) write(ctx context.Context, t *testing.T, subject Subject, token leasehold.Token, value string) bool {
	raise(&h.attempted, int64(token))
	settled := h.settled.Load()
	err := subject.Write(ctx, h.resource, token, value)
	a := attempt{token: token, outcome: unknown}
	var stale *leasehold.StaleTokenError
	switch {
	case err == nil:
		a.outcome = accepted
		raise(&h.settled, int64(token))
		if int64(token) < settled {
			t.Errorf("%s: token %d was accepted although %d had been accepted before the write began", h.resource, token, settled)
		}
	case errors.As(err, &stale):
		a.outcome = refused
		if stale.Resource != h.resource || stale.Token != token || stale.Highest <= token || int64(stale.Highest) > h.attempted.Load() {
			t.Errorf("%s: token %d was refused with %+v; the highest token that anybody used is %d", h.resource, token, *stale, h.attempted.Load())
		}
	case errors.Is(err, fence.ErrConflict):
		a.outcome = refused // not for its token, but it says that nothing has changed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.outcomes[value] = a
	if a.outcome == unknown {
		h.lost = err
	}
	return a.outcome != unknown
}

func (h *history) lastLost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// verify compares what the writers saw with what the resource holds.
func (h *history) verify(t *testing.T, subject Subject, total *[3]int) {
	values, err := subject.Values(t.Context(), h.resource)
	if err != nil {
		t.Fatalf("read %q: %v", h.resource, err)
	}
	seen := make(map[string]bool, len(values))
	var last leasehold.Token
	for i, value := range values {
		a, ok := h.outcomes[value]
		switch {
		case !ok:
			t.Errorf("%s: value %q was never written", h.resource, value)
		case seen[value]:
			t.Errorf("%s: value %q is there twice", h.resource, value)
		case a.outcome == refused:
			t.Errorf("%s: value %q with token %d was refused and is there", h.resource, value, a.token)
		case a.token < last:
			t.Errorf("%s: value %d, %q with token %d, took effect after token %d", h.resource, i, value, a.token, last)
		}
		seen[value] = true
		last = max(last, a.token)
	}
	for value, a := range h.outcomes {
		total[a.outcome]++
		if a.outcome == accepted && !seen[value] {
			t.Errorf("%s: value %q with token %d was accepted and is not there", h.resource, value, a.token)
		}
	}
}

func raise(to *atomic.Int64, n int64) {
	for {
		old := to.Load()
		if n <= old || to.CompareAndSwap(old, n) {
			return
		}
	}
}

// restarts kills and restarts the server while the writers write.
type restarts struct {
	subject Subject
	at      []int64 // after how many writes

	mu    sync.Mutex // held while the server is away
	count int
}

// restartAt restarts the server if n writes are the moment for it. Each n is given once.
func (r *restarts) restartAt(ctx context.Context, t *testing.T, n int64) {
	if r.subject.Restart == nil || !slices.Contains(r.at, n) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	if err := r.subject.Restart(ctx); err != nil {
		t.Errorf("restart: %v", err)
	}
}

// await returns when the server is there.
func (r *restarts) await() {
	r.mu.Lock()
	defer r.mu.Unlock()
}
