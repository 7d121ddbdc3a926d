// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Election is a name that one candidate at a time leads. It is the same line in etcd as a lock's of that name: whoever
// campaigns stands in line, the first leads, and the value of its key is what it proclaims. etcd's own elections and
// "etcdctl elect" stand in the same line.
//
// An Election holds nothing and need not be closed. All methods are safe for concurrent use.
type Election struct {
	name string
	etcd *clientv3.Client
	cfg  Config
	// session is where a campaign stands, with one more place counted in its load.
	session func(ctx context.Context) (*Session, error)
}

// Election returns the election of that name, whose campaigns stand on this session. The name is checked by the methods.
func (s *Session) Election(name string) *Election {
	return &Election{
		name: name, etcd: s.engine.client, cfg: s.cfg,
		session: func(context.Context) (*Session, error) { s.load.Add(1); return s, nil },
	}
}

// Election returns the election of that name, whose campaigns stand on sessions of the pool.
func (c *Client) Election(name string) *Election {
	return &Election{name: name, etcd: c.etcd, cfg: c.cfg, session: c.reserve}
}

// String names the election for people.
func (e *Election) String() string { return fmt.Sprintf("leasehold election %q", e.name) }

// GoString is String.
func (e *Election) GoString() string { return e.String() }

// Name returns the name of the election.
func (e *Election) Name() string { return e.name }

// Campaign stands in line with a value to proclaim and returns when this candidate leads. Several campaigns of one
// session are separate candidates. ctx bounds the wait; the errors are those of [Session.Lock], and with an error
// no candidate is left that could win later.
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) {
	l, err := e.campaign(ctx, value, func() {})
	if err != nil {
		return nil, fmt.Errorf("leasehold: campaign for %s: %w", quoteBounded(e.name), err)
	}
	return l, nil
}

// campaign calls inLine once the candidate stands in line.
func (e *Election) campaign(ctx context.Context, value string, inLine func()) (*Leadership, error) {
	if err := checkName(e.name); err != nil {
		return nil, err
	}
	s, err := e.session(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.ready(ctx, e.name, value); err != nil {
		s.unload()
		return nil, err
	}
	p := s.newPlace(e.name, value)
	a, err := p.join(ctx)
	if err == nil {
		inLine()
		err = p.wait(ctx, a)
	}
	g, err := p.conclude(err)
	if err != nil {
		return nil, err
	}
	return &Leadership{Grant: g, turn: make(chan struct{}, 1)}, nil
}

// Leader is who leads an election, as etcd knows it. The zero Leader, whose Token is 0, means that nobody leads.
type Leader struct {
	// Value is what the leader has proclaimed last.
	Value string
	// Key is the leader's key.
	Key string
	// Token is the fencing token of its leadership; 0: nobody leads.
	Token Token
	// Lease is the lease of its key; 0 for a key that somebody put without one.
	Lease clientv3.LeaseID
	// Revision is the revision of the store at which the value was put.
	Revision int64
}

func leaderOf(kv *mvccpb.KeyValue) Leader {
	return Leader{
		Value: string(kv.GetValue()), Key: string(kv.GetKey()), Token: Token(kv.GetCreateRevision()),
		Lease: clientv3.LeaseID(kv.GetLease()), Revision: kv.GetModRevision(),
	}
}

// Leader returns who leads, by a linearizable read of one round trip, or [ErrNoLeader]. The answer is as old as the round trip
// when it arrives, and the leader it names may have stopped believing before.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	line, err := e.line(ctx, clientv3.WithLimit(1))
	if err == nil && len(line.kvs) == 0 {
		err = ErrNoLeader
	}
	if err != nil {
		return Leader{}, fmt.Errorf("leasehold: leader of %s: %w", quoteBounded(e.name), err)
	}
	return leaderOf(line.kvs[0]), nil
}

// A lineState is the line of an election at a revision, the leader first.
type lineState struct {
	revision int64
	kvs      []*mvccpb.KeyValue
}

func (e *Election) line(ctx context.Context, opts ...clientv3.OpOption) (lineState, error) {
	if err := checkName(e.name); err != nil {
		return lineState{}, err
	}
	engine, err := useEngine(e.etcd, e.cfg.Logger)
	if err != nil {
		return lineState{}, err
	}
	defer engine.leave()
	return e.readLine(ctx, engine, opts...)
}

func (e *Election) readLine(ctx context.Context, engine *engine, opts ...clientv3.OpOption) (lineState, error) {
	opts = append([]clientv3.OpOption{
		clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend),
	}, opts...)
	resp, err := engine.read(ctx, nil, clientv3.OpGet(lineDir(e.cfg.Prefix, e.name), opts...))
	if err != nil {
		return lineState{}, err
	}
	return lineState{resp.Header.GetRevision(), resp.Responses[0].GetResponseRange().GetKvs()}, nil
}

// Leadership is an election that is led: a [Grant] whose value can be changed. All methods are safe for concurrent use.
type Leadership struct {
	*Grant
	turn chan struct{} // holds one while a Proclaim is under way

	progressed atomic.Int64 // when Progress was last called, as an Instant

	mu       sync.Mutex
	resigned error // why the leadership had been lost before the first Resign, if it had
}

// Progress tells an [Elector] with a deadline for that (ElectorConfig.Progress) that the work goes on. It costs a clock
// reading and never blocks. Call it from the place that would stop if the work were stuck, not from a timer beside it.
func (l *Leadership) Progress() { l.progressed.Store(int64(l.place.session.clk.Now())) }

// Proclaim changes the value that observers see. Token and lease stay. Proclamations of one leadership are made one after
// the other; one whose outcome is unknown, because ctx ended or etcd fell silent, can take effect later, but never after
// a later one has succeeded. After the leadership has ended, the error matches [ErrNotLeader] and the reason, any number
// of times.
func (l *Leadership) Proclaim(ctx context.Context, value string) error {
	if err := l.proclaim(ctx, value); err != nil {
		return fmt.Errorf("leasehold: proclaim for %q: %w", l.Name(), err)
	}
	return nil
}

func (l *Leadership) proclaim(ctx context.Context, value string) error {
	if len(value) > maxValueBytes {
		return fmt.Errorf("%w: a value of %d bytes, want at most %d", ErrInvalidConfig, len(value), maxValueBytes)
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return ending(ctx)
	}
	for {
		if err := l.Err(); err != nil {
			return notLeader(err)
		}
		again, err := l.place.proclaim(ctx, value)
		if errors.Is(err, errTaken) {
			l.taken() // R10: told by this very answer
		}
		if err != nil || !again {
			if lost := l.Err(); lost != nil {
				return notLeader(lost)
			}
			return err
		}
	}
}

// proclaim puts a value if nothing was put since the last known revision. That compare makes a late attempt of an earlier
// proclamation harmless once a later one has succeeded. again: an earlier attempt turned out to have been applied, and
// what is known has been brought up to date.
func (p *place) proclaim(ctx context.Context, value string) (again bool, err error) {
	p.mu.Lock()
	mod := p.mod
	p.maybe = append(p.maybe, value) // known before it is sent: its event may overtake the answer
	p.mu.Unlock()
	w := &write{
		line: p.dir, size: p.size() + len(value),
		cmps: []clientv3.Cmp{
			clientv3.Compare(clientv3.CreateRevision(p.key), "=", int64(p.token)),
			clientv3.Compare(clientv3.ModRevision(p.key), "=", mod),
		},
		then: []clientv3.Op{clientv3.OpPut(p.key, value, clientv3.WithLease(p.session.id)), clientv3.OpGet(p.key)},
		els:  []clientv3.Op{clientv3.OpGet(p.key)},
	}
	resp, err := p.session.engine.writes.await(ctx, p.session, w)
	if err != nil {
		p.unproclaimed(w, value)
		return false, p.refused(ctx, err)
	}
	answer := resp.Responses[len(resp.Responses)-1].GetResponseRange().GetKvs()
	if len(answer) == 0 || !p.intact(answer[0]) {
		return false, errTaken
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mod, p.value = answer[0].GetModRevision(), string(answer[0].GetValue())
	if resp.Succeeded || p.value == value {
		p.maybe = nil // what was under way before compared an older revision
		return false, nil
	}
	return true, nil
}

// unproclaimed forgets a value that certainly was not put, so that proclamations which are refused again and again do not pile up.
func (p *place) unproclaimed(w *write, value string) {
	if settled, put := p.session.engine.writes.outcome(w); !settled || put {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.maybe, value); i >= 0 {
		p.maybe = slices.Delete(p.maybe, i, i+1)
	}
}

// errTaken: the key is not ours any more.
var errTaken = fmt.Errorf("%w: the key was deleted or overwritten", ErrRevoked)

// Resign gives the leadership up: belief ends first, then the candidate's key is deleted. It is [Grant.Release], except that
// its error after the leadership had ended matches [ErrNotLeader] too, any number of times.
func (l *Leadership) Resign(ctx context.Context) error {
	lost, err := l.release(ctx)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case lost && errors.Is(err, ErrReleased):
		err = notLeader(errors.Join(err, l.resigned))
	case lost:
		l.resigned = err // lost before, although perhaps nobody had noticed: the key was not there to be deleted
		err = notLeader(err)
	}
	return fmt.Errorf("leasehold: resign from %q: %w", l.Name(), err)
}

func notLeader(reason error) error { return fmt.Errorf("%w: %w", ErrNotLeader, reason) }
