// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"cmp"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A write is one small transaction: If(cmps) Then(then) Else(els), or a read of then.
type write struct {
	line  string // the directory of the line that it is about; "" for none
	frees bool   // deletes a key of the line, and puts none
	whole bool   // compares all keys of the line
	cmps  []clientv3.Cmp
	then  []clientv3.Op
	els   []clientv3.Op
	size  int // bytes, roughly
	// urgent: somebody waits for nothing else but this write.
	urgent bool
	// wanted tells whether the write is to be sent (again). Called with committer.mu held: it takes no lock.
	wanted func() bool
	// done receives the answer, once, without any lock held, unless the write is abandoned or unwanted first. It must not
	// block.
	done func(*clientv3.TxnResponse, error)

	// Guarded by committer.mu.
	tries    int  // flights that took it along
	out      int  // of these, how many have no outcome yet
	doubt    bool // of these, some ended without saying whether they were applied
	put      bool // of these, one was answered as having succeeded, or more than one may have been applied
	won      bool // of these, one was answered as having succeeded
	queued   bool
	answered bool
	sick     bool  // it has failed alone; see sickroom
	most     int   // shares a transaction of at most so many writes, because a larger one failed; 0: of any number
	last     error // why the latest flight failed
}

// nextLocked takes the writes of the next flight from the queue. Writes that nobody wants any more fall out without an
// answer: their owners have stopped waiting for one.
func (c *committer) nextLocked() []*write {
	var batch []*write
	var ops, size int
	most := c.limit
	rest := c.queue[:0]
	for i, w := range c.queue {
		if w.answered || !w.wanted() {
			c.unqueueLocked(w)
			w.answered = true
			continue
		}
		if len(batch) > 0 {
			if ops >= c.limit || len(batch) >= most {
				rest = append(rest, c.queue[i:]...)
				break
			}
			if w.most > 0 && len(batch) >= w.most || ops+w.ops(c.reads) > c.limit || size+w.size > shareBytes || !sociable(batch, w) {
				rest = append(rest, w)
				continue
			}
		}
		c.unqueueLocked(w)
		ops += w.ops(c.reads)
		size += w.size
		batch = append(batch, w)
		most = min(most, cmp.Or(w.most, most))
	}
	clear(c.queue[len(rest):])
	c.queue = rest
	slices.SortStableFunc(batch, func(a, b *write) int { return a.turn() - b.turn() })
	return batch
}

// ops counts what the write adds to the operations of a shared transaction: a transaction inside it, or plain reads.
func (w *write) ops(reads bool) int {
	if reads {
		return len(w.then)
	}
	return 1
}

// turn is where in a transaction a write goes: deletions first, and of these last the ones that read another key of the line.
func (w *write) turn() int {
	switch {
	case w.frees && !w.urgent:
		return 0
	case w.frees:
		return 1
	}
	return 2
}

// sociable reports whether w can share a transaction with all of batch.
func sociable(batch []*write, w *write) bool {
	return w.line == "" || !slices.ContainsFunc(batch, func(b *write) bool {
		return b.line == w.line && (!b.frees && !w.frees || b.whole || w.whole)
	})
}

// requeueLocked puts unanswered writes in front of the queue.
func (c *committer) requeueLocked(writes []*write) {
	var again []*write
	for _, w := range writes {
		if !w.answered && !w.queued {
			c.queueLocked(w)
			again = append(again, w)
		}
	}
	c.queue = append(again, c.queue...)
}

// queueLocked counts a write that enters the queue, and unqueueLocked one that leaves it.
func (c *committer) queueLocked(w *write) {
	w.queued = true
	if w.urgent {
		c.urgent++
	}
}

func (c *committer) unqueueLocked(w *write) {
	w.queued = false
	if w.urgent {
		c.urgent--
	}
}
