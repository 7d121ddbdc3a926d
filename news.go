// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

// news is what an elector has heard about who leads, by observing the line and by winning. The two are not ordered among
// each other, so each piece has an age: a leader's is its token, because tokens rise along the leaders of one name, and that
// of "nobody leads" is the revision at which the line was empty. What is older than the last piece is dropped.
type news struct {
	mu      sync.Mutex
	last    Leader
	age     int64
	changed chan struct{} // closed at the next change; nil: nobody waits
}

// heard takes a state of the line as of a revision.
func (n *news) heard(l Leader, revision int64) {
	age := revision
	if l.Token != 0 {
		age = int64(l.Token)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if age < n.age || (l.Token != 0 && l.Token == n.last.Token && l.Revision < n.last.Revision) {
		return
	}
	n.age = age
	if l == n.last {
		return
	}
	n.last = l
	if n.changed != nil {
		close(n.changed)
		n.changed = nil
	}
}

// led: this replica has won.
func (n *news) led(l Leader) { n.heard(l, 0) }

func leaderOfGrant(l *Leadership, value string) Leader {
	return Leader{Value: value, Key: l.Key(), Token: l.Token(), Lease: l.Session().Lease(), Revision: int64(l.Token())}
}

func (n *news) leader() Leader {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// next returns who leads, and a channel that is closed when that changes.
func (n *news) next() (Leader, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.changed == nil {
		n.changed = make(chan struct{})
	}
	return n.last, n.changed
}

// forget: what was heard will not be brought up to date any more.
func (n *news) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last, n.age = Leader{}, 0
}

// tell calls fn with what has changed, until ctx ends.
func (n *news) tell(ctx context.Context, fn func(Leader)) {
	if fn == nil {
		return
	}
	var told Leader
	for {
		l, changed := n.next()
		if ctx.Err() == nil && (l.Token != told.Token || l.Value != told.Value) { // Run waits for no further call
			told = l
			fn(l)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// awaitOther waits until somebody leads with a later token, ctx ends or the time is over.
func (n *news) awaitOther(ctx context.Context, token Token, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		l, changed := n.next()
		if l.Token > token {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// follow observes the line for as long as Run runs. An observation ends when etcd refuses it; the elector goes on asking.
func (e *Elector) follow(ctx context.Context) {
	election := e.client.Election(e.cfg.Name)
	for try := 0; ; try++ {
		began := time.Now()
		err := election.observe(ctx, func(l Leader, revision int64) bool {
			e.news.heard(l, revision)
			return true
		})
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return
		}
		e.journal.warn("leasehold: elector: cannot observe who leads; trying again", zap.Error(err))
		if time.Since(began) > settledAfter {
			try = 0
		}
		if pause(ctx, min(100*time.Millisecond<<min(try, 6), 5*time.Second)) != nil {
			return
		}
	}
}
