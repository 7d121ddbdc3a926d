// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
)

// The keeper renews the leases of all sessions of an etcd client and enforces their expiry.
//
// A renewal is, by keeper.mu:
//
//	due at an instant   a third of the term after the last send (R12)
//	asked               in the queue of a stream or sent over it, since an instant
//	overdue             asked for longer than its patience: it is asked again, over another stream
//
// and after any answer that extends the lease it is due again. A lease that has ended is in none of these states:
// nothing is sent for it and answers for it are dropped (R3, R12).
//
// Streams. A server answers one stream strictly in order and handles one renewal at a time, so one lease in
// trouble (expired at the grantor, with its revocation under way) stops all that are behind it in the stream. All leases
// share the main stream. When a renewal is overdue, its stream is stalled: either the member or the path is silent, or the
// renewal at the head of the stream is the trouble. Both are met at once: the head is suspect and asks again over a side
// stream, the others move to a new main stream over another member. If that one stalls as well, there are several in
// trouble: the overdue ones spread over four times as many main streams, each of which finds one suspect.
//
// A stalled stream is not ended: its answers, however late, count from their own sends, so that a path slower than our
// patience still renews. It is ended when none of its answers could extend anything, or when there are too many
// of its kind.
type keeper struct {
	engine *engine
	wake   bell // the agenda has changed

	pilot *pilot

	term atomic.Uint64 // the highest raft term of an answer, since the cluster is what it is

	mu       sync.Mutex
	sessions map[clientv3.LeaseID]*Session
	agenda   agenda     // sessions by what is to be done next
	carriers []*carrier // open or opening streams, oldest first
	mains    []*carrier // the first is everybody's, the others for what is overdue; opened when next needed
	width    int        // how many mains what is overdue spreads over
	side     *carrier   // for suspects; nil: opened when next needed
	trip     time.Duration
	failed   map[string]clock.Instant // endpoints whose stream failed, and when last
	failures int                      // streams that failed since the last answer
	turn     int                      // where the search for the next endpoint begins
	shortest time.Duration            // the shortest term among all sessions so far, and
	longest  time.Duration            // the longest
	stalled  clock.Instant            // when a main stream stalled last
	grown    bool                     // a session was added since the last look
	retired  clock.Instant            // when streams were last looked at for their use
}

const (
	// tick bounds how long the keeper sleeps, so that a machine that wakes from suspend is noticed within it although
	// timers stood still meanwhile (R5).
	tick = time.Second
	// together is by how much renewals are sent early to go out in one go, but by no more than a hundredth of the term: thousands of
	// sessions are renewed in some ten bursts a second then, each of which costs hardly more than one of them.
	together = 100 * time.Millisecond
	// carrierLimit bounds the streams kept for late answers, widthLimit the main ones.
	carrierLimit, widthLimit = 6, 16
	// retireEvery is how often streams are looked at for their use.
	retireEvery = 250 * time.Millisecond
	// grudge is how long an endpoint whose stream failed is avoided if there is another.
	grudge = 5 * time.Second
)

// renewal is the keeper's view of one session; guarded by keeper.mu.
type renewal struct {
	place   int           // in the agenda; -1: not there
	next    clock.Instant // when there is something to do, the expiry apart
	at      clock.Instant // next or the expiry, whichever is earlier, as the agenda is ordered
	asked   bool
	over    *carrier // the stream over which it was asked last
	suspect bool     // it was the head of a stalled stream: asks over the side stream until answered
	overdue bool     // asks again
	sent    clock.Instant
	term    uint64 // the raft term below which an answer counts for nothing (R2)
}

func newKeeper(e *engine) *keeper {
	k := &keeper{
		engine:   e,
		wake:     newBell(),
		sessions: make(map[clientv3.LeaseID]*Session),
		failed:   make(map[string]clock.Instant),
		width:    1,
		stalled:  e.clk.Now().Add(-time.Hour),
		retired:  e.clk.Now(),
		turn:     rand.IntN(1 << 16),
	}
	k.pilot = newPilot(k)
	return k
}

// add takes over a session whose lease was granted by a request sent at sent, and in that raft term.
func (k *keeper) add(s *Session, sent clock.Instant, term uint64) {
	k.mu.Lock()
	k.sessions[s.id] = s
	k.shortest = min(s.granted, cmp.Or(k.shortest, s.granted))
	k.longest = max(s.granted, k.longest)
	s.renewal = renewal{place: -1, sent: sent, next: sent.Add(s.allow.renewAfter(s.granted, rand.Float64())), term: term}
	k.grown = true
	k.scheduleLocked(s)
	k.mu.Unlock()
	k.kick()
}

// hurry asks for a renewal of s now: its answer tells whether the lease is still there.
func (k *keeper) hurry(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sessions[s.id] != s || s.renewal.asked {
		return
	}
	s.renewal.next = k.engine.clk.Now()
	k.scheduleLocked(s)
	k.kick()
}

// session returns the session of a lease, or nil.
func (k *keeper) session(id clientv3.LeaseID) *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sessions[id]
}

// anySession returns one of the sessions, nil if there is none.
func (k *keeper) anySession() *Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sessions {
		return s
	}
	return nil
}

// rise takes note of the raft term of an answer that needed a leader. A leader that was cut off from the others goes on to renew leases until
// it notices, for up to an election timeout after they have elected another. What the new one has renewed meanwhile counts from that
// renewal on, and what the former one promises after it is worth nothing. So answers of earlier terms do not count any more.
//
// Sessions that begin later start with the term of their own grant: a cluster that was restored may count its terms anew.
func (k *keeper) rise(term uint64) {
	if term <= k.term.Load() {
		return // nearly always
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.riseLocked(term)
}

func (k *keeper) riseLocked(term uint64) {
	if term <= k.term.Load() {
		return
	}
	k.term.Store(term)
	for _, s := range k.sessions {
		s.renewal.term = max(s.renewal.term, term)
	}
}

// remove forgets a session. Called when it has ended.
func (k *keeper) remove(s *Session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.renewal.place >= 0 {
		heap.Remove(&k.agenda, s.renewal.place)
	}
	if k.sessions[s.id] == s {
		delete(k.sessions, s.id)
	}
}

// failAll ends every session.
func (k *keeper) failAll(reason error) {
	k.mu.Lock()
	all := make([]*Session, 0, len(k.sessions))
	for _, s := range k.sessions {
		all = append(all, s)
	}
	k.mu.Unlock()
	for _, s := range all {
		s.lose(reason)
	}
}

func (k *keeper) kick() { k.wake.ring() }

// shortestTerm is the shortest term among the sessions so far: what must be noticed, must be noticed well within it.
func (k *keeper) shortestTerm() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return cmp.Or(k.shortest, defaultTTL)
}

// scheduleLocked puts a session where it belongs in the agenda.
func (k *keeper) scheduleLocked(s *Session) {
	r := &s.renewal
	r.at = min(r.next, clock.Instant(s.expiry.Load()))
	if r.place < 0 {
		heap.Push(&k.agenda, s)
	} else {
		heap.Fix(&k.agenda, r.place)
	}
}

// run sends what is due and ends what has expired. It never blocks on the network, so that an expiry is enforced even
// when every stream is stuck (R4).
func (k *keeper) run() {
	timer := time.NewTimer(tick)
	defer timer.Stop()
	for {
		expired, wait := k.attend()
		for _, s := range expired {
			s.Valid() // finds the expiry passed and says so to everybody
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-k.engine.ctx.Done():
			return
		}
	}
}

// attend does what is to be done now and returns how long there is nothing to do.
func (k *keeper) attend() (expired []*Session, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.engine.clk.Now()
	if k.grown && len(k.mains) == 0 {
		k.mainLocked(now, 1) // so that the first renewal finds it open
	}
	k.grown = false
	for len(k.agenda) > 0 {
		s := k.agenda[0]
		r := &s.renewal
		switch expiry := clock.Instant(s.expiry.Load()); {
		case expiry <= now:
			heap.Pop(&k.agenda) // nothing is sent for it any more
			expired = append(expired, s)
			continue
		case r.next <= now.Add(min(together, s.granted/100)):
			k.askLocked(s, now)
			k.scheduleLocked(s)
			continue
		case r.at <= now:
			k.scheduleLocked(s) // the expiry has moved since
			continue
		}
		break
	}
	k.retireLocked(now)
	wait = tick
	if len(k.agenda) > 0 {
		wait = min(wait, max(0, k.agenda[0].renewal.at.Sub(now)))
	}
	return expired, wait
}

// askLocked asks for a renewal, or asks again by another way.
func (k *keeper) askLocked(s *Session, now clock.Instant) {
	r := &s.renewal
	if r.overdue = r.asked; r.overdue && r.over != nil && !r.over.dead {
		r.suspect = r.suspect || r.over.headIs(s)
		k.stalledLocked(r.over)
	}
	way := k.wayLocked(r, now)
	r.next = now.Add(s.allow.patience(s.granted, k.trip))
	if r.asked, r.over = true, way; way == nil {
		return
	}
	r.over.queue = append(r.over.queue, s)
	r.over.link.kick()
}

// agenda is a heap of sessions by renewal.at.
type agenda []*Session

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].renewal.at < a[j].renewal.at }

func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].renewal.place, a[j].renewal.place = i, j
}

func (a *agenda) Push(x any) {
	s := x.(*Session)
	s.renewal.place = len(*a)
	*a = append(*a, s)
}

func (a *agenda) Pop() any {
	last := len(*a) - 1
	s := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	s.renewal.place = -1
	return s
}
