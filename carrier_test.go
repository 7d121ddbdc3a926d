// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/etcdfake"
)

// onCarrier gives a stream that is not connected to anything, and sessions whose terms have just begun.
func onCarrier(t *testing.T, sessions int, f func(t *testing.T, c *carrier, all []*Session)) {
	synctest.Test(t, func(t *testing.T) {
		cli := etcdfake.NewForTest(t, etcdfake.Options{}).Client(t)
		e := startEngine(cli, &mark{}, Config{}.mustDefaults(t).Logger)
		defer func() {
			e.cancel()
			<-e.done
		}()
		k := e.keeper
		c := &carrier{keeper: k, link: &keepaliveLink{endpoint: "nowhere", wake: make(chan struct{}, 1), cancel: func() {}}}
		k.mu.Lock()
		k.carriers, k.mains = append(k.carriers, c), append(k.mains, c)
		var all []*Session
		for i := range sessions {
			s := &Session{engine: e, cfg: Config{}.mustDefaults(t)}
			s.lease = lease{id: clientv3.LeaseID(i + 1), granted: 15 * time.Second, clk: e.clk}
			s.allow = allowance{defaultDriftBound, defaultMargin}
			s.expiry.Store(int64(s.allow.expiry(e.clk.Now(), s.granted)))
			s.renewal = renewal{place: -1}
			s.ctx, s.cancel = context.WithCancelCause(t.Context())
			e.enter()
			k.sessions[s.id] = s
			all = append(all, s)
		}
		k.mu.Unlock()
		e.enter() // the test itself
		f(t, c, all)
	})
}

func (c Config) mustDefaults(t *testing.T) Config {
	c, err := c.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask puts sessions into the queue of the stream and returns the leases that go out.
func (c *carrier) ask(all ...*Session) (sent []int64) {
	c.keeper.mu.Lock()
	for _, s := range all {
		s.renewal.asked, s.renewal.over = true, c
		c.queue = append(c.queue, s)
	}
	c.keeper.mu.Unlock()
	for m := c.next(nil); m != nil; m = c.next(nil) {
		sent = append(sent, m.GetID())
	}
	return sent
}

func answerOf(s *Session, ttl int64) *pb.LeaseKeepAliveResponse {
	return &pb.LeaseKeepAliveResponse{Header: header(clusterA, 1), ID: int64(s.id), TTL: ttl}
}

func (s *Session) expiresAt() clock.Instant { return clock.Instant(s.expiry.Load()) }

// R1: an answer says only which lease it is for. It belongs to the oldest send of that lease on its stream that has none.
func TestCarrier_PairsAnAnswerWithTheOldestUnansweredSend(t *testing.T) {
	onCarrier(t, 2, func(t *testing.T, c *carrier, all []*Session) {
		a, b := all[0], all[1]
		time.Sleep(time.Second)
		var sends []clock.Instant
		for range 3 {
			sends = append(sends, a.clk.Now())
			if got := c.ask(a, b); len(got) != 2 {
				t.Fatalf("sent %v", got)
			}
			time.Sleep(time.Second)
		}
		for i, at := range sends {
			c.received(nil, answerOf(a, 15))
			if want := a.allow.expiry(at, a.granted); a.expiresAt() != want {
				t.Errorf("answer %d: expiry %v off that of its send", i, a.expiresAt().Sub(want))
			}
			c.received(nil, answerOf(b, 15))
			if b.expiresAt() != a.expiresAt() {
				t.Errorf("answer %d of the other lease: expiry %v off", i, b.expiresAt().Sub(a.expiresAt()))
			}
		}
		if c.unanswered() != 0 {
			t.Errorf("%d unanswered", c.unanswered())
		}
	})
}

// R1: an answer to nothing that was sent over this stream extends nothing.
func TestCarrier_AnAnswerWithoutASendSaysNothing(t *testing.T) {
	onCarrier(t, 1, func(t *testing.T, c *carrier, all []*Session) {
		s := all[0]
		before := s.expiresAt()
		time.Sleep(time.Second)
		c.received(nil, answerOf(s, 15))
		c.ask(s)
		time.Sleep(time.Second)
		c.received(nil, answerOf(s, 15))
		once := s.expiresAt()
		time.Sleep(time.Second)
		c.received(nil, answerOf(s, 15))
		c.received(nil, answerOf(&Session{lease: lease{id: 99}}, 15))
		c.received(nil, answerOf(s, 0)) // nor does it end anything
		if once.Sub(before) != time.Second || s.expiresAt() != once || !s.Valid() {
			t.Errorf("expiry moved by %v, then %v; valid %v", once.Sub(before), s.expiresAt().Sub(once), s.Valid())
		}
	})
}

// R2: what the answer says counts, if it is less than what was granted.
func TestCarrier_ATermInAnAnswerCounts(t *testing.T) {
	onCarrier(t, 1, func(t *testing.T, c *carrier, all []*Session) {
		s := all[0]
		time.Sleep(10 * time.Second)
		before, at := s.expiresAt(), s.clk.Now()
		c.ask(s)
		c.received(nil, answerOf(s, 3)) // less than what is left
		if s.expiresAt() != before {
			t.Errorf("expiry moved by %v", s.expiresAt().Sub(before))
		}
		c.ask(s)
		c.received(nil, answerOf(s, 7))
		if want := s.allow.expiry(at, 7*time.Second); s.expiresAt() != want {
			t.Errorf("expiry %v off that of seven seconds", s.expiresAt().Sub(want))
		}
	})
}

// R12: nothing goes out for a lease that is lost, also when it waited in the queue as that happened, or when its expiry has passed
// and nobody has looked yet.
func TestCarrier_SendsNothingForALeaseThatIsLost(t *testing.T) {
	onCarrier(t, 4, func(t *testing.T, c *carrier, all []*Session) {
		ended, removed, expired, good := all[0], all[1], all[2], all[3]
		ended.end(ErrRevoked)
		c.keeper.mu.Lock()
		delete(c.keeper.sessions, removed.id)
		c.keeper.mu.Unlock()
		expired.expiry.Store(int64(expired.clk.Now()))
		if got := c.ask(ended, removed, expired, good); len(got) != 1 || got[0] != int64(good.id) {
			t.Errorf("sent renewals of %v, want only of %d", got, good.id)
		}
	})
}

// R12: nothing goes out twice for one that was answered over another stream while it waited here.
func TestCarrier_SendsNothingForWhatWasAnsweredElsewhere(t *testing.T) {
	onCarrier(t, 1, func(t *testing.T, c *carrier, all []*Session) {
		c.keeper.mu.Lock()
		c.queue = append(c.queue, all[0])
		c.keeper.mu.Unlock()
		if got := c.ask(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}
	})
}

// A stream that is open for months keeps no more than what is unanswered, in whatever order the answers come.
func TestCarrier_ForgetsWhatIsAnswered(t *testing.T) {
	onCarrier(t, 3, func(t *testing.T, c *carrier, all []*Session) {
		c.ask(all[0])
		for range 10_000 { // never quite empty
			c.ask(all...)
			for _, i := range []int{2, 0, 1} {
				c.received(nil, answerOf(all[i], 15))
			}
		}
		if c.unanswered() > 3 || len(c.sends) > 3000 {
			t.Errorf("%d unanswered, %d kept", c.unanswered(), len(c.sends))
		}
	})
}
