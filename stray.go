// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// stray counts a deletion of a key that somebody has taken from us. Its lease may have been stripped, so that nothing but the
// deletion removes it: it is wanted for as long as the session lives, and for a term after, for which Close waits. done is to be
// called when it is answered.
func (s *Session) stray() (wanted func() bool, done func()) {
	s.engine.enter()
	s.strays.enter()
	var over atomic.Bool
	end := sync.OnceFunc(func() {
		over.Store(true)
		s.engine.leave() // before Close goes on, which waits for the engine's goroutines if it is the last to leave
		s.strays.leave()
	})
	// A write that is not wanted any more is not answered.
	stop := context.AfterFunc(s.ctx, func() { time.AfterFunc(s.granted, end) })
	done = func() {
		stop()
		end()
	}
	return func() bool { return !over.Load() }, done
}

// A latch counts what is under way; gone is closed while there is nothing.
type latch struct {
	mu    sync.Mutex // a leaf
	count int
	none  chan struct{} // closed when count has fallen to zero; made when it rises from there
}

func (l *latch) enter() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count++; l.count == 1 {
		l.none = make(chan struct{})
	}
}

func (l *latch) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count--; l.count == 0 {
		close(l.none)
	}
}

func (l *latch) gone() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count == 0 {
		l.none = make(chan struct{})
		close(l.none)
	}
	return l.none
}
