// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"example.com/leasehold/internal/clock"
)

// Session is one etcd lease and its life in this process. It is open from [NewSession] until it is lost or closed,
// which happens once, for one reason, and takes all its grants and waiters with it; it is never revived (R3).
//
// The sessions of one etcd client share one keepalive stream, whatever their terms, and one watch stream. A session can
// hold any number of locks and lead any number of elections; etcd handles some hundreds of keys per lease well, so beyond that
// use a [Client], which spreads them.
//
// All methods are safe for concurrent use.
type Session struct {
	lease
	cfg     Config
	engine  *engine
	renewal renewal // the keeper's; guarded by keeper.mu

	ctx    context.Context // ends with the session; the cause is why
	cancel context.CancelCauseFunc

	announced sync.Once
	slots     slots        // what makes the keys of the places different
	load      atomic.Int64 // places taken or about to be
	retained  atomic.Bool  // see retain
	strays    latch        // deletions of keys that may not go with the lease
	opened    clock.Instant
	lent      atomic.Bool            // the pool has handed it out: it does not close it when it is empty
	borrowed  bool                   // an elector's, of which the pool knows for its Close only; guarded by the pool's mu
	pool      atomic.Pointer[Client] // told when load has fallen to zero; nil: none

	// The end by Close or Abandon, whichever comes first.
	closeMu sync.Mutex    // never held across the network
	closing chan struct{} // nil until then; closed when the lease is known to be gone or given up
	closed  error         // what Close found; written before closing is closed, as is last
	last    bool          // the engine ends with this session
	quiet   atomic.Bool   // Abandon was called: nothing is sent
}

// NewSession asks etcd for a lease and keeps it alive until the session is lost or closed. It costs one round trip. ctx
// bounds the opening only: the session lives on when ctx ends. If NewSession fails, nothing is left running, and a lease that a
// lost answer may have granted is revoked in the background or runs out.
//
// The errors: [ErrInvalidConfig] for a nil or unusable client, or listing all values out of bounds; [ErrClosed] if the client is closed; [ErrRolledBack] while the cluster is behind what the client
// has seen; ctx's error, joined with the last failure; etcd's own error when it refuses.
func NewSession(ctx context.Context, client *clientv3.Client, cfg Config) (*Session, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s, err := openSession(ctx, client, cfg)
	if err != nil {
		return nil, fmt.Errorf("leasehold: open a session: %w", err)
	}
	return s, nil
}

func openSession(ctx context.Context, client *clientv3.Client, cfg Config) (*Session, error) {
	e, err := useEngine(client, cfg.Logger)
	if err != nil {
		return nil, err
	}
	s, err := e.open(ctx, cfg)
	if err != nil {
		e.leave()
		return nil, err
	}
	return s, nil
}

// open grants a lease and starts its life.
func (e *engine) open(ctx context.Context, cfg Config) (*Session, error) {
	if ctx.Err() != nil {
		return nil, ending(ctx) // nothing is sent
	}
	if e.mark.suspect() {
		// Only a linearizable answer above the mark shows that tokens will rise again.
		if _, err := e.read(ctx, nil, cfg.glance()); err != nil {
			return nil, err
		}
	}
	for {
		granted, sent, err := e.grant(ctx, cfg.TTL)
		if errors.Is(err, ErrRolledBack) && !e.mark.suspect() {
			_, _ = e.read(ctx, nil, cfg.glance()) // so that the next opening knows whether a cluster that was left is back
		}
		if err != nil {
			return nil, err
		}
		s := &Session{cfg: cfg, engine: e, opened: sent}
		s.id = clientv3.LeaseID(granted.ID)
		s.granted = time.Duration(granted.TTL) * time.Second
		s.allow = allowance{drift: cfg.DriftBound, margin: cfg.Margin}
		s.clk = e.clk
		expiry := s.allow.expiry(sent, s.granted)
		if !e.clk.Now().Before(expiry) {
			e.revokeSoon(s.id, 0, unclaimedFor) // the answer took longer than the term
			continue
		}
		s.expiry.Store(int64(expiry))
		// The session outlives the caller's context, so that its own starts from none.
		s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(e.ctx))
		e.keeper.add(s, sent, granted.GetHeader().GetRaftTerm())
		if e.ctx.Err() != nil {
			e.enter()               // announce gives back the use that the caller gives back, too
			s.lose(errClientClosed) // closed while the session opened: failAll may have missed it
			return nil, errClientClosed
		}
		return s, nil
	}
}

// glance is a read that costs next to nothing, of a key that whoever uses the prefix may read.
func (c Config) glance() clientv3.Op { return clientv3.OpGet(c.Prefix, clientv3.WithCountOnly()) }

// grant asks for a lease until it gets one, ctx ends or etcd refuses. Each attempt has a lease id of its own, known
// before it is sent: the leases of attempts whose answer is lost are revoked in the background (R9).
func (e *engine) grant(ctx context.Context, ttl time.Duration) (*pb.LeaseGrantResponse, clock.Instant, error) {
	type answer struct {
		resp *pb.LeaseGrantResponse
		sent clock.Instant
		err  error
	}
	attempts, cancel := context.WithCancel(e.ctx) // not the caller's, so that each attempt's end is attended to
	defer cancel()
	answers := make(chan answer) // unbuffered: an answer that nobody takes is known to be nobody's
	var last error
	fail := func(err error) (*pb.LeaseGrantResponse, clock.Instant, error) {
		if last != nil {
			err = fmt.Errorf("%w (last attempt: %w)", err, last)
		}
		return nil, 0, err
	}
	// Thousands of openings at once would wait for each other at the server, each take that for silence, and ask again.
	turn := func() { <-e.openings }
	select {
	case e.openings <- struct{}{}:
	case <-ctx.Done():
		return fail(ending(ctx))
	case <-e.ctx.Done():
		return fail(errClientClosed)
	}
	defer func() { turn() }()
	for try := 0; ; try++ {
		id := rand.Int64() | 1 // never 0, which would make the server choose
		e.enter()
		attempt := func() {
			defer e.leave()
			sent := e.clk.Now() // R1
			resp, err := pb.NewLeaseClient(e.client.ActiveConnection()).LeaseGrant(attempts, &pb.LeaseGrantRequest{ID: id, TTL: int64(ttl / time.Second)})
			err = clientv3.ContextError(attempts, err)
			if err == nil {
				err = e.streamed(resp.GetHeader())
			}
			select {
			case answers <- answer{resp, sent, err}:
				if err == nil {
					return
				}
			case <-attempts.Done():
			}
			if resp != nil || judge(err) == outcomeUnknown {
				e.revokeSoon(clientv3.LeaseID(id), 0, unclaimedFor)
			}
		}
		if !e.start(attempt) {
			e.leave()
			return fail(errClientClosed)
		}
		timer := time.NewTimer(min(250*time.Millisecond<<min(try, 3), 2*time.Second))
		failed := false
		for again := false; !again; {
			select {
			case a := <-answers:
				switch {
				case a.err == nil:
					timer.Stop()
					return a.resp, a.sent, nil
				case judge(a.err) == outcomeRefused && !errors.Is(a.err, rpctypes.ErrLeaseExist):
					timer.Stop()
					last = nil
					return fail(a.err)
				}
				last = a.err
				if !failed { // else it fails with others, as all do whose connection breaks: one pause is for all of them
					failed = true
					timer.Reset(jittered(min(20*time.Millisecond<<min(try, 6), time.Second)))
				}
			case <-timer.C:
				again = true
			case <-ctx.Done():
				timer.Stop()
				return fail(ending(ctx))
			case <-e.ctx.Done():
				timer.Stop()
				return fail(errClientClosed)
			}
		}
		if failed {
			e.hasten()
			continue
		}
		// Perhaps a silent member: another one is asked beside it, and nobody waits for this one's turn to end.
		turn()
		turn = func() {}
		if try > 0 {
			e.hastenSilent()
		}
	}
}

// openingsAtOnce is how many sessions of an etcd client are opened side by side.
const openingsAtOnce = 128

// unclaimedFor is how long the revocation of a lease that may not even exist is tried. It runs out by itself anyway.
const unclaimedFor = time.Second

// String names the session for people: its lease, as etcdctl prints it.
func (s *Session) String() string { return fmt.Sprintf("lease %x", int64(s.id)) }

// GoString is String: the fields are not for looking at while the session is in use.
func (s *Session) GoString() string { return s.String() }

// Lease returns the id of the session's etcd lease. Do not renew or revoke it: the session does.
func (s *Session) Lease() clientv3.LeaseID { return s.id }

// TTL returns the term as granted, which may be longer than the one asked for.
func (s *Session) TTL() time.Duration { return s.granted }

// Valid reports whether the local expiry lies ahead and the session has neither been lost nor closed. It reads the clock at
// every call and trusts no timer (R4). It takes no lock, does not allocate and never blocks.
//
// The answer can be out of date as soon as it is given: a process can stop between the check and what it does next.
// Only a resource that compares tokens makes a late write impossible (R13).
func (s *Session) Valid() bool {
	live, ended := s.live()
	if ended {
		s.announce()
	}
	return live
}

// Err returns nil while the session is valid, and then why it ended: an error that matches [ErrExpired], [ErrRevoked],
// [ErrRolledBack] or [ErrClosed].
func (s *Session) Err() error {
	if s.Valid() {
		return nil
	}
	return s.reason()
}

// Remaining returns the time until the local expiry if no renewal is answered, and zero once the session has ended.
func (s *Session) Remaining() time.Duration { return s.remaining() }

// Context returns a context that ends with the session, at the local expiry at the latest even when nothing can be
// reached; [context.Cause] of it tells why. It carries no deadline, because renewals move the expiry.
func (s *Session) Context() context.Context { return s.ctx }

// Done returns a channel that is closed when the session ends. It is Context().Done().
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// lose ends the session for a reason, if it has not ended, and tells everybody.
func (s *Session) lose(reason error) {
	s.end(reason)
	s.announce()
}

// unload counts one place less.
func (s *Session) unload() {
	if s.load.Add(-1) > 0 {
		return
	}
	if pool := s.pool.Load(); pool != nil {
		pool.idle(s)
	}
}

// announce tells everybody that the session has ended: once, by whoever finds out first, without waiting for anything.
func (s *Session) announce() {
	s.announced.Do(func() {
		defer s.engine.leave()
		reason := s.reason()
		s.cancel(reason) // first: whatever else is held up, the holders are told (R4)
		s.engine.keeper.remove(s)
		s.engine.watcher.prune()
		if !errors.Is(reason, ErrClosed) { // otherwise Close and Abandon see to the lease, and a closed client cannot
			s.engine.journal.write(s.cfg.Logger, zap.WarnLevel, "leasehold: session lost",
				[]zap.Field{zap.String("lease", fmt.Sprintf("%x", int64(s.id))), zap.Error(reason)})
			if !s.quiet.Load() && !s.retained.Load() {
				s.engine.revokeSoon(s.id, s.untilGrantor(reason), s.granted)
			}
		}
	})
}

// untilGrantor is how long the grantor still keeps a lease that was lost for a reason: after a local expiry, for what the
// holder left unused of the term, and otherwise not at all.
func (s *Session) untilGrantor(reason error) time.Duration {
	if errors.Is(reason, ErrExpired) {
		return s.granted - s.allow.held(s.granted)
	}
	return 0
}

// Close ends the session: first the belief of all its grants (R6), then it revokes the lease, which frees all their
// keys at once. It returns when the lease is known to be gone, or with ctx's error when ctx ends first; the revocation then
// goes on in the background, for as long as the lease can live without being renewed. Closing a session that was
// closed or lost before returns nil. If the etcd client was closed before, the error matches [ErrClosed] and
// the lease runs out by itself.
func (s *Session) Close(ctx context.Context) error {
	s.closeMu.Lock()
	first := s.closing == nil
	if first {
		s.closing = make(chan struct{})
		s.startClosing()
	}
	s.closeMu.Unlock()
	select {
	case <-s.closing:
	case <-ctx.Done():
		return fmt.Errorf("leasehold: close session: %w", ending(ctx))
	}
	if s.last {
		select {
		case <-s.engine.done: // so that no goroutine is left when Close returns
		case <-ctx.Done():
		}
	}
	if first {
		return s.closed
	}
	return nil
}

// startClosing ends the session and revokes its lease in the background. Called once, with closeMu held.
func (s *Session) startClosing() {
	e := s.engine
	e.enter()
	s.lose(ErrClosed)
	switch reason := s.reason(); {
	case errors.Is(reason, errClientClosed), e.client.Ctx().Err() != nil:
		s.closed = fmt.Errorf("leasehold: close session: %w", errClientClosed)
		s.last = e.leave()
		close(s.closing)
	case !errors.Is(reason, ErrClosed): // lost before; announce has seen to the lease
		s.last = e.leave()
		close(s.closing)
	default:
		revoke := func() {
			if err := e.revoke(e.ctx, s.id, s.granted); e.client.Ctx().Err() != nil {
				s.closed = fmt.Errorf("leasehold: close session: %w", errClientClosed)
			} else if err != nil {
				s.closed = fmt.Errorf("leasehold: close session: revoke the lease: %w", err)
			}
			select {
			case <-s.strays.gone():
			case <-e.ctx.Done():
			}
			s.last = e.leave()
			close(s.closing)
		}
		if !e.start(revoke) {
			revoke() // the engine has ended with the etcd client: it returns at once
		}
	}
}

// Abandon ends the belief of the session and all its grants with [ErrClosed] and sends nothing: renewing stops, and the
// lease and its keys stay in etcd until it runs out by itself.
func (s *Session) Abandon() {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.closing != nil {
		return
	}
	s.closing = make(chan struct{})
	close(s.closing)
	s.quiet.Store(true)
	s.lose(ErrClosed)
}
