// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"math/rand/v2"
	"slices"

	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// Which stream a renewal takes; the story is in the comment on keeper. All of it runs under keeper.mu.

// wayLocked chooses the stream to ask over, nil if there is no endpoint.
func (k *keeper) wayLocked(r *renewal, now clock.Instant) *carrier {
	switch {
	case r.suspect:
		if k.side == nil {
			k.side = k.openLocked(now, "")
		}
		return k.side
	case r.overdue || len(k.mains) > 1:
		return k.mainLocked(now, 1+rand.IntN(k.width))
	}
	return k.mainLocked(now, 1)
}

// mainLocked returns the n-th main stream, or a new one if there are fewer.
func (k *keeper) mainLocked(now clock.Instant, n int) *carrier {
	if n <= len(k.mains) {
		return k.mains[n-1]
	}
	c := k.openLocked(now, "")
	if c != nil {
		k.mains = append(k.mains, c)
	}
	return c
}

// stalledLocked stops giving renewals to a stream; it stays open for its answers.
func (k *keeper) stalledLocked(c *carrier) {
	if c.stalled {
		return
	}
	c.stalled = true
	now := k.engine.clk.Now()
	first := now.Sub(k.stalled) >= k.longest // in this trouble, which is told once
	if first {
		k.engine.journal.info("leasehold: a keepalive stream does not answer: moving to another member",
			zap.String("endpoint", c.link.endpoint), zap.Int("unanswered", c.unanswered()))
	}
	if c != k.side {
		if !first {
			k.width = min(4*k.width, widthLimit)
		}
		k.stalled = now
		k.pilot.distrustLocked(c.link.endpoint, 0)
	}
	k.dropLocked(c)
}

// calmLocked is called when an answer has extended a lease over c.
func (k *keeper) calmLocked(c *carrier) {
	c.answers++
	switch {
	case c.dead: // about to end
	case c.stalled && (len(k.mains) == 0 || k.mains[0].answers == 0):
		c.stalled = false // slow, but what has replaced it, if anything, has answered nothing yet
		k.mains = slices.Insert(k.mains, 0, c)
		k.pilot.kick()
	case c == k.side && len(k.mains) == 0:
		k.mains, k.side = append(k.mains, c), nil // the way that works is for everybody
		k.pilot.kick()
	case c == k.side && c.unanswered() == 0:
		k.side = nil
	case k.width > 1 && k.engine.clk.Now().Sub(k.stalled) > k.longest:
		k.width, k.mains = 1, k.mains[:min(1, len(k.mains))] // the trouble is over
	}
}

// dropLocked makes c neither a main stream nor the side stream. It reports whether it was one.
func (k *keeper) dropLocked(c *carrier) bool {
	if k.pilot.scout == c {
		k.pilot.lostLocked(c)
		return false
	}
	if k.side == c {
		k.side = nil
		return true
	}
	i := slices.Index(k.mains, c)
	if i >= 0 {
		k.mains = slices.Delete(k.mains, i, i+1)
	}
	return i >= 0
}

// inUse reports whether renewals are given to c.
func (k *keeper) inUse(c *carrier) bool {
	return k.side == c || k.pilot.scout == c || slices.Contains(k.mains, c)
}

// openLocked opens a stream over an endpoint, or if that is "", over the one that looks best. It returns nil if there is none.
func (k *keeper) openLocked(now clock.Instant, endpoint string) *carrier {
	if endpoint == "" {
		endpoint = k.bestLocked(now)
	}
	if endpoint == "" {
		return nil
	}
	open := 0
	for _, c := range slices.Backward(k.carriers) {
		if c.dead || k.inUse(c) {
			continue
		}
		if open++; open >= carrierLimit {
			k.endLocked(c)
		}
	}
	c := &carrier{keeper: k}
	k.carriers = append(k.carriers, c)
	c.link = startLink(k.engine, endpoint, c)
	return c
}

// bestLocked chooses the endpoint for a new stream: not that of a stalled stream, not one that has just failed, and among equals
// the leader's. It returns "" if the etcd client has no endpoints (SetEndpoints can do that).
func (k *keeper) bestLocked(now clock.Instant) string {
	endpoints := k.engine.client.Endpoints()
	best, bestCost := "", 0
	for i := range endpoints {
		endpoint := endpoints[(k.turn+i)%len(endpoints)]
		cost, answering := 0, 0
		for _, c := range k.carriers {
			switch {
			case c.link.endpoint != endpoint:
			case c.stalled:
				cost += 2
			case c.answers == 0:
				cost++
			default:
				answering = 1 // many that answer are no reason to try one that does not
			}
		}
		cost += answering
		if at, ok := k.failed[endpoint]; ok && now.Sub(at) < grudge {
			cost += 3
		}
		cost *= 2
		if endpoint == k.pilot.leader && !k.pilot.distrustsLocked(endpoint, now) {
			cost--
		}
		if best == "" || cost < bestCost {
			best, bestCost = endpoint, cost
		}
	}
	k.turn++
	return best
}

// retireLocked ends the streams that are not in use and none of whose answers could extend anything.
func (k *keeper) retireLocked(now clock.Instant) {
	if now.Sub(k.retired) < retireEvery {
		return
	}
	k.retired = now
	for _, c := range k.carriers {
		if !c.dead && !k.inUse(c) && !c.usefulLocked() {
			k.endLocked(c)
		}
	}
}

// endLocked ends a stream; closed follows.
func (k *keeper) endLocked(c *carrier) {
	k.dropLocked(c)
	c.dead = true
	c.link.cancel()
}
