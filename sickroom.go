// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"slices"
	"time"
)

// A sickroom keeps the writes that have failed alone, in a way that can be their own fault (see spoiled), or everybody's. They are tried
// again one after the other for as long as they are wanted, by a clock of their own, which does not go faster for many of them: nobody else
// waits for them, and if the trouble is everybody's, etcd is not asked more often than it would be otherwise. When one of them succeeds,
// all are as good as new: it was not its own fault.
//
// Its fields are guarded by committer.mu.
type sickroom struct {
	writes   []*write
	failures int  // since it was empty
	open     bool // visit is under way
}

// admitLocked takes in an unanswered write that has failed alone.
func (c *committer) admitLocked(w *write) {
	w.sick = true
	if w.answered || w.queued || slices.Contains(c.sick.writes, w) {
		return
	}
	c.sick.writes = append(c.sick.writes, w)
	c.sick.failures++
	if !c.sick.open && !c.closed {
		c.sick.open = true
		c.engine.wg.Go(c.visit)
	}
}

// dischargeLocked lets all queue again, to share transactions as before.
func (c *committer) dischargeLocked() {
	for _, w := range c.sick.writes {
		w.sick, w.most = false, 0
		c.requeueBehindLocked(w)
	}
	c.sick.writes, c.sick.failures = nil, 0
}

// requeueBehindLocked puts an unanswered write at the end of the queue, where it may be already: by a flight that was overdue when the
// write fell sick, and has failed since.
func (c *committer) requeueBehindLocked(w *write) {
	if !w.answered && !w.queued {
		c.queueLocked(w)
		c.queue = append(c.queue, w)
	}
}

// visit lets one of the sick writes queue again now and then, until there are none.
func (c *committer) visit() {
	for {
		wait, ok := c.rounds()
		if !ok || pause(c.engine.ctx, wait) != nil {
			break
		}
		c.mu.Lock()
		if len(c.sick.writes) > 0 { // else the committer was closed
			w := c.sick.writes[0]
			c.sick.writes = slices.Delete(c.sick.writes, 0, 1)
			c.requeueBehindLocked(w)
			c.pumpLocked()
		}
		c.mu.Unlock()
	}
}

// rounds lets those go that nobody wants any more, and tells when the next one is to be tried. Not ok: there is none.
func (c *committer) rounds() (wait time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sick.writes = slices.DeleteFunc(c.sick.writes, func(w *write) bool {
		w.answered = w.answered || !w.wanted() // its owner has stopped waiting
		return w.answered
	})
	if c.sick.open = len(c.sick.writes) > 0; !c.sick.open {
		c.sick.failures = 0
	}
	return min(20*time.Millisecond<<min(c.sick.failures, 6), time.Second), c.sick.open
}
