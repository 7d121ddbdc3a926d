// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/connectivity"

	"example.com/leasehold/internal/clock"
)

// An engine is everything that the sessions of one etcd client share while at least one of them lives: the keepalive
// stream, the watch stream, the transactions and the clean-up.
//
// Goroutines, all started with wg.Go and ended by ctx:
//
//	keeper.run    one; sends renewals when due, enforces every expiry, chooses streams; never blocks on the network
//	pilot.run     one; brings the main keepalive stream to the leader
//	watcher.run   one; opens the watch stream when somebody watches, checks that it answers, fails over
//	vigil.run     one; puts grants older than a second under watch, reads what a broken watch may have missed
//	janitor.run   one; looks again for keys of unsettled attempts
//	link          two for each open stream (send, receive); at most a handful of streams
//	flight        one for each transaction under way, bounded by the committer, and a few that wait for the next
//	visit         at most two; try writes again that have failed alone (see sickroom)
//	revoker       at most revokers; revoke the leases of lost sessions
//
//	journal.run   one; writes the log, and is not waited for
//
// None of them depends on the number of sessions or grants.
//
// Locks. None is held across the network, a log or user code. Client.mu, Session.closeMu, vigil.mu and Grant.mu are taken first, in
// that order; then one of keeper.mu, watcher.mu, committer.mu and janitor.mu; then the leaves lease.mu, place.mu, slots.mu, mark.mu,
// engine.starting and engines.mu.
type engine struct {
	client *clientv3.Client
	mark   *mark
	clk    *clock.Clock

	ctx    context.Context // ends when nobody needs the engine or the etcd client was closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   chan struct{} // closed when all goroutines but the journal's have ended

	starting sync.Mutex // a leaf
	stopping bool       // no goroutine is started from outside any more; guarded by starting

	keeper  *keeper
	watcher *watcher
	vigil   *vigil
	janitor *janitor
	writes  *committer
	reads   *committer
	journal *journal // with the log of the session that started the engine

	openings chan struct{} // holds one for each session that is being opened, up to openingsAtOnce
	hastened throttle      // of telling grpc to connect again
	doubted  throttle      // of looking into answers of an earlier revision

	// users counts sessions, openings and what cleans up after them; guarded by engines.mu. At zero the engine ends.
	users int
}

// engines finds the running engine and the mark of an etcd client. Clients are held weakly: the mark must live as long
// as its client and no longer.
var engines = struct {
	mu    sync.Mutex
	known map[weak.Pointer[clientv3.Client]]*engineSlot
}{known: make(map[weak.Pointer[clientv3.Client]]*engineSlot)}

type engineSlot struct {
	mark    mark
	running *engine // nil while the client has no sessions; holds the client strongly
	// warned is set once the versions of the cluster's servers have been looked at.
	warned bool
}

// useEngine returns the client's engine, started if need be, with one more user. Every use is given back by
// engine.leave.
func useEngine(client *clientv3.Client, log *zap.Logger) (*engine, error) {
	if err := checkClient(client); err != nil {
		return nil, err
	}
	engines.mu.Lock()
	defer engines.mu.Unlock()
	id := weak.Make(client)
	slot := engines.known[id]
	if slot == nil {
		slot = &engineSlot{}
		engines.known[id] = slot
		runtime.AddCleanup(client, forgetEngine, id)
	}
	if slot.running == nil {
		slot.running = startEngine(client, &slot.mark, log)
		if !slot.warned {
			slot.warned = true
			slot.running.wg.Go(slot.running.inspectServers)
		}
	}
	slot.running.users++
	return slot.running, nil
}

// checkClient refuses etcd clients that cannot carry a session.
func checkClient(client *clientv3.Client) error {
	switch {
	case client == nil:
		return fmt.Errorf("%w: the etcd client is nil", ErrInvalidConfig)
	case client.ActiveConnection() == nil:
		return fmt.Errorf("%w: the etcd client has no connection of its own (made with NewCtxClient?), so it cannot carry a keepalive stream", ErrInvalidConfig)
	case client.Ctx().Err() != nil:
		return errClientClosed
	}
	return nil
}

func forgetEngine(id weak.Pointer[clientv3.Client]) {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	delete(engines.known, id)
}

// errClientClosed is the reason of everything that ends because the etcd client below it was closed.
var errClientClosed = fmt.Errorf("%w: the etcd client is closed", ErrClosed)

func startEngine(client *clientv3.Client, m *mark, log *zap.Logger) *engine {
	e := &engine{
		client: client,
		mark:   m,
		clk:    clock.From(client.Ctx()),
		done:   make(chan struct{}),

		openings: make(chan struct{}, openingsAtOnce),
	}
	// The client's context carries no values or deadline of a caller: NewSession's context bounds the opening only.
	e.ctx, e.cancel = context.WithCancel(client.Ctx())
	e.hastened.last.Store(longAgo)
	e.doubted.last.Store(longAgo)
	e.journal = newJournal(log)
	e.keeper = newKeeper(e)
	e.watcher = newWatcher(e)
	e.vigil = newVigil(e)
	e.janitor = newJanitor(e)
	e.writes = newCommitter(e, false)
	e.reads = newCommitter(e, true)
	if !e.clk.CountsSuspend() {
		e.journal.warn("leasehold: this platform has no clock that counts suspend: a machine that sleeps believes too long")
	}
	e.wg.Go(e.keeper.run)
	e.wg.Go(e.keeper.pilot.run)
	e.wg.Go(e.watcher.run)
	e.wg.Go(e.vigil.run)
	e.wg.Go(e.janitor.run)
	go e.journal.run(e.ctx)
	go func() {
		<-e.ctx.Done()
		e.starting.Lock()
		e.stopping = true
		e.starting.Unlock()
		e.keeper.failAll(errClientClosed) // none is left unless the client was closed
		e.writes.close()
		e.reads.close()
		e.wg.Wait()
		close(e.done)
	}()
	return e
}

// start runs f in a goroutine of the engine, unless that has ended. Only the engine's own goroutines may use wg.Go
// directly: from outside, the last of them can have ended.
func (e *engine) start(f func()) bool {
	e.starting.Lock()
	defer e.starting.Unlock()
	if e.stopping {
		return false
	}
	e.wg.Go(f)
	return true
}

// enter counts one more user of an engine that has one.
func (e *engine) enter() {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e.users++
}

// leave gives back one use. It reports whether the engine ends now.
func (e *engine) leave() bool {
	engines.mu.Lock()
	defer engines.mu.Unlock()
	e.users--
	if e.users > 0 {
		return false
	}
	if slot := engines.known[weak.Make(e.client)]; slot != nil && slot.running == e {
		slot.running = nil
	}
	e.cancel()
	return true
}

// rolledBack ends every session: tokens handed out before are no longer older than those to come.
func (e *engine) rolledBack() {
	e.journal.warn("leasehold: the etcd cluster was replaced or went back in time: all sessions of this client are lost")
	e.keeper.failAll(ErrRolledBack)
	e.keeper.term.Store(0)
}

// read makes a linearizable read of ops for a session (may be nil), in one transaction with others under way, and
// returns one response for each op.
func (e *engine) read(ctx context.Context, s *Session, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return e.reads.await(ctx, s, &write{then: ops})
}

// A bell wakes a goroutine that may be busy: it rings until it is heard, once however often it was rung meanwhile. A nil bell makes
// no sound.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// hasten has grpc connect again at once if no endpoint can be reached: somebody waits, and after an outage grpc would do nothing for
// seconds, up to two minutes.
func (e *engine) hasten() {
	if unreachable(e.client) && e.hastened.again(e.clk.Now(), 50*time.Millisecond) {
		reconnect(e.client)
	}
}

// hastenSilent does the same when a call and its repetition were not answered: for all that grpc knows, a member that has died without
// a word is connected still, and all calls go to it while grpc waits before it tries one that may be back.
func (e *engine) hastenSilent() {
	if e.hastened.again(e.clk.Now(), time.Second) {
		reconnect(e.client)
	}
}

// reconnect must not be called often, nor when there is no need: grpc (v1.85) walks over its connections without their lock, and if
// the client is given other endpoints in that very instant, the Go runtime ends the process (grpc-go, pull request 9155).
func reconnect(client *clientv3.Client) { client.ActiveConnection().ResetConnectBackoff() }

func unreachable(client *clientv3.Client) bool {
	return client.ActiveConnection().GetState() == connectivity.TransientFailure
}

// A throttle lets something be done now and then only. It goes by the clock that cannot be set back.
type throttle struct{ last atomic.Int64 } // when it was done, as an Instant

// again reports whether it is to be done now, because it was not within the time given.
func (t *throttle) again(now clock.Instant, after time.Duration) bool {
	last := t.last.Load()
	return now.Sub(clock.Instant(last)) >= after && t.last.CompareAndSwap(last, int64(now))
}

// pause waits for d, jittered by up to a half, or until ctx ends, and tells why it did.
func pause(ctx context.Context, d time.Duration) error {
	if clock.Wait(ctx, jittered(d)) != nil {
		return ending(ctx)
	}
	return nil
}

// jittered is d, shortened by up to a half.
func jittered(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// ending is why ctx has ended: an error that matches ctx.Err() and the cause, so that a caller can ask for whichever it knows of.
func ending(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
