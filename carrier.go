// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"example.com/leasehold/internal/clock"
)

// A carrier is one keepalive stream. Its fields are guarded by keeper.mu.
type carrier struct {
	keeper  *keeper
	link    *link[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]
	queue   []*Session // asked, not yet sent
	sends   []send     // sent over this stream, in order; sends[head:] from the oldest unanswered
	head    int
	answers int
	member  uint64        // as the answers say, and
	term    uint64        // the raft term
	sought  uint64        // of a scout: the member that it is to find, and
	found   chan struct{} // closed when it has, or when it is lost
	stalled bool
	dead    bool                     // ended, or about to: nothing more is sent over it
	request pb.LeaseKeepAliveRequest // reused: a message is encoded before the next one is asked for
}

// A send is a renewal on its way, with its send instant (R1).
type send struct {
	session *Session // nil: answered
	at      clock.Instant
}

func (c *carrier) open(ctx context.Context, _ *keepaliveLink, conn *grpc.ClientConn) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
	return pb.NewLeaseClient(conn).LeaseKeepAlive(ctx)
}

type keepaliveLink = link[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]

// next takes the send instant of the next renewal, before the message exists for anybody else (R1).
func (c *carrier) next(*keepaliveLink) *pb.LeaseKeepAliveRequest {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	if c == k.pilot.scout {
		return c.tryLocked()
	}
	for !c.dead && len(c.queue) > 0 {
		s := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		live := k.sessions[s.id] == s && !s.ended()
		if !live || !s.renewal.asked {
			continue // lost, or answered over another stream while it waited here
		}
		now := k.engine.clk.Now()
		if !now.Before(clock.Instant(s.expiry.Load())) {
			continue // R12: never for a lease that is lost
		}
		s.renewal.sent = now
		return c.sendLocked(s, now)
	}
	return nil
}

func (c *carrier) sendLocked(s *Session, now clock.Instant) *pb.LeaseKeepAliveRequest {
	c.sends = append(c.sends, send{session: s, at: now})
	c.request.ID = int64(s.id)
	return &c.request
}

// tryLocked renews one lease over a scout, once, beside the lease's turn: whatever becomes of it, the turn comes.
func (c *carrier) tryLocked() *pb.LeaseKeepAliveRequest {
	if c.dead || len(c.sends) > 0 {
		return nil
	}
	k := c.keeper
	now := k.engine.clk.Now()
	for _, s := range k.sessions {
		if !s.ended() && now.Before(clock.Instant(s.expiry.Load())) { // R12, here too
			return c.sendLocked(s, now)
		}
	}
	return nil
}

// received pairs an answer with the oldest unanswered send of its lease on this stream (R1).
func (c *carrier) received(_ *keepaliveLink, answer *pb.LeaseKeepAliveResponse) {
	k := c.keeper
	if err := k.engine.streamed(answer.GetHeader()); err != nil {
		return
	}
	id := clientv3.LeaseID(answer.GetID())
	k.mu.Lock()
	k.failures = 0
	delete(k.failed, c.link.endpoint)
	k.pilot.heardLocked(c, answer.GetHeader())
	sent, ok := c.pairLocked(id)
	if !ok {
		k.mu.Unlock()
		return // an answer to nothing that was asked here says nothing
	}
	k.trip = smoothed(k.trip, k.engine.clk.Now().Sub(sent))
	term := answer.GetHeader().GetRaftTerm()
	k.riseLocked(term)
	s := k.sessions[id]
	if s == nil || term < s.renewal.term {
		k.mu.Unlock()
		return // of a former leader, or through one (R2)
	}
	s.renewal.term = term
	var lost error
	if answer.GetTTL() <= 0 {
		lost = ErrRevoked // believed at once (R10)
	} else if s.extend(sent, time.Duration(answer.GetTTL())*time.Second) {
		r := &s.renewal
		if r.sent.Sub(sent) < s.granted/6 {
			r.asked, r.suspect, r.overdue, r.over = false, false, false, nil
			r.next = r.sent.Add(s.allow.renewAfter(s.granted, rand.Float64()))
		} // else the answer is of an old send: it extends, but the latest is still waited for
		k.scheduleLocked(s)
		if c == k.pilot.scout {
			k.pilot.arrivedLocked(c)
		} else {
			k.calmLocked(c)
		}
	} else {
		lost = ErrExpired
	}
	k.mu.Unlock()
	if lost != nil {
		s.lose(lost)
	}
}

// pairLocked finds the oldest unanswered send of a lease. The server answers in order, so that it is the very oldest,
// unless something in between does not.
func (c *carrier) pairLocked(id clientv3.LeaseID) (at clock.Instant, ok bool) {
	for i := c.head; i < len(c.sends); i++ {
		if s := c.sends[i].session; s != nil && s.id == id {
			at, ok = c.sends[i].at, true
			c.sends[i].session = nil
			break
		}
	}
	for c.head < len(c.sends) && c.sends[c.head].session == nil {
		c.head++
	}
	if c.head == len(c.sends) {
		c.sends, c.head = c.sends[:0], 0
	} else if c.head > 1024 && c.head > len(c.sends)/2 {
		n := copy(c.sends, c.sends[c.head:])
		clear(c.sends[n:])
		c.sends, c.head = c.sends[:n], 0
	}
	return at, ok
}

// closed voids the unanswered sends of the stream: whatever asked over it asks again.
func (c *carrier) closed(_ *keepaliveLink, err error) {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	c.dead = true
	k.carriers = slices.DeleteFunc(k.carriers, func(other *carrier) bool { return other == c })
	if k.engine.ctx.Err() != nil {
		return
	}
	if !k.dropLocked(c) {
		return // retired, or overtaken by another
	}
	now := k.engine.clk.Now()
	k.failed[c.link.endpoint] = now
	k.pilot.distrustLocked(c.link.endpoint, 0)
	if k.failures++; k.failures == 1 { // since the last answer
		k.engine.journal.info("leasehold: a keepalive stream ended", zap.String("endpoint", c.link.endpoint), zap.Error(err))
	}
	// The head may be what ended it (a renewal that is refused ends the whole stream): it goes another way than the rest.
	if len(c.sends) > c.head {
		if s := c.sends[c.head].session; s != nil && k.sessions[s.id] == s {
			s.renewal.suspect = true
		}
	}
	again := now.Add(min(10*time.Millisecond<<min(k.failures, 8), tick))
	for _, s := range k.sessions {
		if s.renewal.asked && s.renewal.over == c {
			s.renewal.over = nil
			s.renewal.next = min(s.renewal.next, again)
			k.scheduleLocked(s)
		}
	}
	k.kick()
}

func (c *carrier) headIs(s *Session) bool {
	return c.head < len(c.sends) && c.sends[c.head].session == s
}

func (c *carrier) unanswered() int { return len(c.sends) - c.head + len(c.queue) }

// usefulLocked reports whether an answer to any send on its way, or to one that waits for the stream to open, could still
// extend its lease.
func (c *carrier) usefulLocked() bool {
	for _, s := range c.queue {
		if c.keeper.sessions[s.id] == s && s.renewal.asked {
			return true
		}
	}
	for _, sent := range c.sends[c.head:] {
		s := sent.session
		if s == nil || c.keeper.sessions[s.id] != s || s.ended() {
			continue
		}
		if s.allow.expiry(sent.at, s.granted).After(clock.Instant(s.expiry.Load())) {
			return true
		}
	}
	return false
}
