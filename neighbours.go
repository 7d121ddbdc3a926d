// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Neighbours are places of one process that stand one right behind the other in a line. They hand over without a watch and
// without a read: the transaction that deletes the key of a released grant also reads the key of the place behind it. Its
// answer proves, at one revision, all of R7 that etcd can prove: the own key is there, the one just ahead is gone, and
// that one was the first of the line, because it was granted; nothing can have come between the two.
//
// The place ahead can go in other ways: given up, taken by an operator, lost with its session. Then the place behind is
// told to look for itself, or notices the end of that session. What it cannot notice at once, the deletion of a grant
// too young to be watched, it learns when that grant does, and at the latest by its own look within a term.

// follow lets p count on the place of that key, which is just ahead, if it is one of this process and not about to go.
func (p *place) follow(key string) (front *place) {
	lease, slot, ok := parsePlaceKey(p.dir, key)
	if !ok {
		return nil
	}
	s := p.session.engine.keeper.session(lease)
	if s == nil || s.ended() {
		return nil
	}
	if front = s.slots.at(p.dir, slot); front == nil || front.key != key {
		return nil
	}
	front.mu.Lock()
	defer front.mu.Unlock()
	// A later use of the same slot stands behind, or does not stand yet; and whoever was followed last is the one behind.
	if front.left.Load() || front.lost || front.token == 0 || front.token >= p.token ||
		front.behind != nil && front.behind.token > p.token {
		return nil
	}
	front.behind = p
	return front
}

// unfollow ends that p counts on front.
func (p *place) unfollow(front *place) {
	front.mu.Lock()
	defer front.mu.Unlock()
	if front.behind == p {
		front.behind = nil
	}
}

// forsake tells the place that counts on p to look for itself, and that nobody comes to count on p any more: its key
// was taken, though p has not left yet.
func (p *place) forsake() {
	p.mu.Lock()
	behind := p.behind
	p.behind, p.lost = nil, true
	p.mu.Unlock()
	behind.lookYourself()
}

// depart marks the place as given up or released, once, and returns the place that counts on it, if any. None comes
// to count on it after that.
func (p *place) depart() (behind *place, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.behind, !p.left.Swap(true)
}

// lookYourself makes p, which may be nil, read the line.
func (p *place) lookYourself() {
	if p != nil {
		p.tell(func(s *sightings) { s.stale, s.passed = true, true })
	}
}

// handOver completes the deletion of a grant's key with the read that lets the place behind be first by its answer.
func (w *write) handOver(behind *place) {
	if behind != nil {
		w.then = append(w.then, clientv3.OpGet(behind.key))
		w.urgent = true
	}
}

// handedOver takes the answer to a deletion that handOver has completed. p may be nil.
func (p *place) handedOver(resp *clientv3.TxnResponse) {
	if p == nil {
		return
	}
	if resp != nil && resp.Succeeded {
		own := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
		if len(own) > 0 && p.intact(own[0]) {
			p.tell(func(s *sightings) { s.first = true })
			return
		}
	}
	p.lookYourself()
}
