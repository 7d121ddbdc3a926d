// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A committer sends small transactions. What is submitted while one is under way shares the next one: nobody waits
// for company, but company is used.
//
// States of a write, all changes under committer.mu:
//
//	queued    -> in flight             a flight takes it along
//	in flight -> queued                the flight is overdue or failed without saying whether it was applied
//	in flight -> answered              the first definite answer counts, of whichever flight
//	in flight -> sick                  it failed alone, in a way that says nothing of the others
//	sick      -> queued                its turn to be tried again has come
//	any       -> answered              nobody wants it any more: if it was never sent, it leaves no trace
//
// A write that was sent again is in several flights at once. That is harmless because every write is idempotent: it
// compares what it changes (R9). What is not harmless is a flight without an answer, because it may be applied at any time
// after, even after the write was answered through another flight: the write counts these (out, doubt), and whoever
// owns the key keeps looking for it until the outcome is settled.
//
// Two writes that put keys of one line never share a transaction: the keys would have equal create revisions, and equal tokens. A
// deletion can share one with a put of its line, and goes first, so that the put finds the key gone. But etcd makes all comparisons of
// a transaction before its first change, so that a write that compares the whole line must not share one with a deletion there.
type committer struct {
	engine *engine
	// reads makes this the committer of reads: no compares, answered without a commit through ReadIndex.
	reads bool

	mu     sync.Mutex
	closed bool
	queue  []*write // in order of submission; some may be answered already
	urgent int      // of these, how many are urgent
	// aloft are the flights without an answer, oldest first. Those that are overdue are kept for their answers but do
	// not hold up others: fresh counts the rest.
	aloft []*flight
	fresh int
	// boarding: a flight has begun that has not taken its writes along yet; it is one of the fresh.
	boarding bool
	company  bool // when the last flight landed, it was not alone
	// calls wakes one of the goroutines that wait for the next flight; there are so many waiting.
	calls   chan struct{}
	waiting int
	// limit is the number of writes in one transaction; it is lowered when the server refuses so many.
	limit int
	// paused: nothing is sent for a while after a failure, and the longer the more failures there were in a row.
	failures int
	paused   bool
	sick     sickroom
	// watchdog fires at watchAt, when the first of the flights may be overdue; zero: there is none that it is set for.
	watchdog *time.Timer
	watchAt  time.Time
	// trip is the smoothed time from sending to answer.
	trip time.Duration
}

const (
	// freshWrites and freshReads are how many transactions are sent side by side. More of writes would only be smaller ones. But one
	// more goes beside the one that is under way, with whatever is queued, when it would be half full; and so does an urgent write.
	freshWrites, freshReads = 1, 4
	// flightLimit bounds the flights without an answer. Above it the oldest is given up, its outcome unknown.
	flightLimit = 32
	// shareLimit and shareBytes bound a shared transaction. A server takes 128 operations by default, of which those that nest
	// deepest must leave room for their own, and 1.5 MiB.
	shareLimit, shareBytes = 120, 512 << 10
)

func newCommitter(e *engine, reads bool) *committer {
	return &committer{engine: e, reads: reads, limit: shareLimit, calls: make(chan struct{})}
}

// submit sends w, at once if nothing else is under way.
func (c *committer) submit(w *write) {
	c.mu.Lock()
	if c.closed {
		w.answered = true
		c.mu.Unlock()
		w.done(nil, errClientClosed)
		return
	}
	c.queueLocked(w)
	c.queue = append(c.queue, w)
	c.pumpLocked()
	c.mu.Unlock()
}

// await submits w and waits for its answer. When ctx ends, or the session s (may be nil), it stops further attempts and
// returns why, naming the last failure; an attempt may still be under way.
func (c *committer) await(ctx context.Context, s *Session, w *write) (*clientv3.TxnResponse, error) {
	type answer struct {
		resp *clientv3.TxnResponse
		err  error
	}
	answers := make(chan answer, 1)
	var lost <-chan struct{}
	if s != nil {
		lost = s.Done()
	}
	w.wanted = func() bool { return ctx.Err() == nil && (s == nil || !s.ended()) }
	w.done = func(resp *clientv3.TxnResponse, err error) { answers <- answer{resp, err} }
	c.submit(w)
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-lost:
		c.abandon(w)
		return nil, s.Err()
	case <-ctx.Done():
		if last := c.abandon(w); last != nil {
			return nil, fmt.Errorf("%w (last attempt: %w)", ending(ctx), last)
		}
		return nil, fmt.Errorf("%w (no answer from etcd)", ending(ctx))
	}
}

// abandon stops further attempts of w. An answer that is already on its way to the owner stays valid; owners that
// must know ask for the outcome.
func (c *committer) abandon(w *write) (last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.answered = true
	return w.last
}

// outcome reports whether no attempt of w can be applied any more, and whether one may have succeeded.
func (c *committer) outcome(w *write) (settled, put bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.out == 0 && !w.doubt, w.put
}

// failed reports whether no attempt of w has succeeded, nor can any be about to.
func (c *committer) failed(w *write) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return w.out == 0 && !w.doubt && !w.won
}

// close answers everything with errClientClosed and sends nothing more.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	if c.watchdog != nil {
		c.watchdog.Stop()
	}
	var orphans []*write
	for _, w := range slices.Concat(c.queue, c.sick.writes) {
		if !w.answered {
			w.answered = true
			orphans = append(orphans, w)
		}
	}
	c.queue, c.sick.writes = nil, nil
	for _, f := range c.aloft {
		f.cancel()
	}
	c.mu.Unlock()
	for _, w := range orphans {
		w.done(nil, errClientClosed)
	}
}

// pumpLocked begins flights while there is something to send and room for it, one after the other: each takes its writes along
// when its goroutine runs.
func (c *committer) pumpLocked() {
	room := freshWrites
	if c.reads {
		room = freshReads
	}
	if c.urgent > 0 || len(c.queue) >= c.limit/2 {
		room = max(room, freshWrites+1)
	}
	if c.closed || c.paused || c.boarding || len(c.queue) == 0 || c.fresh >= room {
		return
	}
	c.boarding = true
	c.fresh++
	select {
	case c.calls <- struct{}{}:
	default:
		c.engine.wg.Go(c.work)
	}
}

// work makes flights, the first at once. Between them it waits to be called, unless enough others do: a goroutine that has grown its
// stack for one request has it for the next.
func (c *committer) work() {
	for {
		c.depart()
		c.mu.Lock()
		enough := c.waiting > freshWrites || c.closed
		if !enough {
			c.waiting++
		}
		c.mu.Unlock()
		if enough {
			return
		}
		select {
		case <-c.calls:
		case <-c.engine.ctx.Done():
			return
		}
		c.mu.Lock()
		c.waiting--
		c.mu.Unlock()
	}
}

// depart takes along what there is, and flies. Where there was company before, the goroutines that have just been given
// their answers run first: what they ask for next travels with it. On an idle machine that takes no time, and on a busy one
// it is the larger transactions that carry it.
func (c *committer) depart() {
	c.mu.Lock()
	if c.company && len(c.queue) < c.limit/2 {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.boarding = false
	var batch []*write
	if !c.closed && !c.paused {
		batch = c.nextLocked()
	}
	if len(batch) == 0 {
		c.fresh--
		c.mu.Unlock()
		return
	}
	f := c.boardLocked(batch)
	c.pumpLocked()
	c.mu.Unlock()
	c.fly(f)
}

// land takes the outcome of a flight: hands out answers, sorts failures into definite and unknown ones, and sends on.
func (c *committer) land(f *flight, resp *clientv3.TxnResponse, err error) {
	type answer struct {
		w    *write
		resp *clientv3.TxnResponse
	}
	var answers []answer
	verdict := judge(err)
	c.mu.Lock()
	if f.fresh {
		f.fresh = false
		c.fresh--
	}
	for i, g := range c.aloft {
		if g == f {
			c.aloft = append(c.aloft[:i], c.aloft[i+1:]...)
			break
		}
	}
	c.company = len(f.writes) > 1 || len(c.queue) > 0 || c.fresh > 0
	for i, w := range f.writes {
		w.out--
		if verdict == outcomeUnknown {
			w.doubt = true
		}
		if err != nil && verdict == outcomeRefused && len(f.writes) > 1 {
			w.last = nil // it may be another's failure
		} else if err != nil {
			w.last = err
		} else {
			w.won = w.won || c.share(f, i, resp).Succeeded
			w.put = w.put || w.tries > 1 || w.won
			if w.sick {
				c.dischargeLocked()
			}
		}
		switch {
		case w.answered:
		case err == nil:
			w.answered = true
			answers = append(answers, answer{w, c.share(f, i, resp)})
		case verdict == outcomeRefused && len(f.writes) == 1, errors.Is(err, ErrRolledBack), errors.Is(err, ErrClosed):
			w.answered = true
			answers = append(answers, answer{w, nil})
		case verdict == outcomeRefused, spoiled(err):
			w.most = max(1, len(f.writes)/2) // one of them spoiled it, or there were too many: halves show which
		}
	}
	if verdict == outcomeRefused && len(f.writes) > 1 {
		if errors.Is(err, rpctypes.ErrTooManyOps) {
			c.limit = max(1, min(c.limit, len(f.writes)/2)) // a server configured lower
		}
	}
	sick := len(f.writes) == 1 && spoiled(err)
	if verdict != outcomeUnknown {
		c.failures = 0
	} else if !sick || !f.writes[0].sick { // that it fails again says nothing new
		c.backOffLocked(err)
	}
	if sick {
		c.admitLocked(f.writes[0])
	} else {
		c.requeueLocked(f.writes)
	}
	for _, w := range f.writes {
		if w.answered && w.out == 0 {
			w.cmps, w.then, w.els = nil, nil, nil // a grant keeps its write for as long as it is held
		}
	}
	if c.closed {
		c.queue, c.sick.writes = nil, nil
		for _, w := range f.writes {
			if !w.answered {
				w.answered = true
				answers = append(answers, answer{w, nil})
			}
		}
		err = errClientClosed
	}
	c.pumpLocked()
	c.mu.Unlock()
	for _, a := range answers {
		if a.resp != nil {
			a.w.done(a.resp, nil)
		} else {
			a.w.done(nil, err)
		}
	}
}

// backOffLocked pauses the queue after a failure, and makes sure that the next attempt finds a connection that is
// trying: after a long outage grpc's own backoff can be minutes.
func (c *committer) backOffLocked(err error) {
	if c.closed || c.paused {
		return
	}
	c.failures++
	c.paused = true
	wait := min(20*time.Millisecond<<min(c.failures, 6), time.Second)
	if c.failures == 10 {
		c.engine.journal.warn("leasehold: etcd does not answer; still trying", zap.Error(err))
	}
	c.engine.wg.Go(func() {
		_ = pause(c.engine.ctx, wait) // ends early only with the engine, which closes the committer
		c.engine.hasten()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paused = false
		c.pumpLocked()
	})
}
