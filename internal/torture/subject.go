// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
)

// subject is what is tortured: something that holds names.
type subject interface {
	// acquire waits for a name. It returns when ctx ends, or as soon as it can after that.
	acquire(ctx context.Context, name string) (holding, error)
	close(ctx context.Context)
}

// holding is a name that is held.
type holding interface {
	valid() bool // the holder may act
	// remaining is for how long valid goes on to say yes if nothing is heard any more. Zero: the subject does not know.
	remaining() time.Duration
	expired() bool // it ended by that, and nothing else
	done() <-chan struct{}
	token() int64
	created() int64 // the create revision of its key; 0: the subject does not tell
	key() string
	lease() int64
	why() string // it ended
	release(ctx context.Context) error
}

const keyPrefix = "torture/"

func newSubject(kind string, client *clientv3.Client, ttl time.Duration, worker string) (subject, error) {
	switch kind {
	case "leasehold":
		pool, err := leasehold.New(client, leasehold.Config{TTL: ttl, Prefix: keyPrefix, Holder: worker})
		if err != nil {
			return nil, err
		}
		return pooled{pool}, nil
	case "mutex":
		return &mutexes{client: client, ttl: ttl}, nil
	}
	return nil, fmt.Errorf("no subject %q", kind)
}

// pooled is the subject that this module is about.
type pooled struct{ pool *leasehold.Client }

func (p pooled) acquire(ctx context.Context, name string) (holding, error) {
	g, err := p.pool.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return granted{g}, nil
}

func (p pooled) close(ctx context.Context) { _ = p.pool.Close(ctx) } // the process ends; leases run out

type granted struct{ *leasehold.Grant }

func (g granted) valid() bool                       { return g.Valid() }
func (g granted) done() <-chan struct{}             { return g.Done() }
func (g granted) token() int64                      { return int64(g.Token()) }
func (g granted) created() int64                    { return int64(g.Token()) }
func (g granted) key() string                       { return g.Key() }
func (g granted) lease() int64                      { return int64(g.Session().Lease()) }
func (g granted) release(ctx context.Context) error { return g.Release(ctx) }

func (g granted) remaining() time.Duration { return g.Remaining() }
func (g granted) expired() bool            { return errors.Is(g.Err(), leasehold.ErrExpired) }

func (g granted) why() string {
	if err := g.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// mutexes is etcd's own concurrency package, used as its documentation says: a session, replaced when it is done, a mutex for each
// acquisition, and work while the session's Done is open. Each goroutine of a worker has one, because two goroutines of one
// session do not exclude each other there.
type mutexes struct {
	client *clientv3.Client
	ttl    time.Duration

	mu      sync.Mutex // never held across the network
	session *concurrency.Session
}

func (m *mutexes) acquire(ctx context.Context, name string) (holding, error) {
	s, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	mutex := concurrency.NewMutex(s, keyPrefix+name)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	return locked{m, s, mutex}, nil
}

// open returns the session. Its context bounds the session's life, not its opening alone, so it is not the caller's.
func (m *mutexes) open(ctx context.Context) (*concurrency.Session, error) {
	m.mu.Lock()
	s := m.session
	m.mu.Unlock()
	if s != nil {
		select {
		case <-s.Done():
		default:
			return s, nil
		}
	}
	lease, err := m.client.Grant(ctx, int64(m.ttl/time.Second))
	if err != nil {
		return nil, err
	}
	if s, err = concurrency.NewSession(m.client, concurrency.WithLease(lease.ID), concurrency.WithTTL(int(m.ttl/time.Second))); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.session = s
	return s, nil
}

// drop ends a session, so that the next acquire opens another.
func (m *mutexes) drop(ctx context.Context, s *concurrency.Session) {
	m.mu.Lock()
	if m.session == s {
		m.session = nil
	}
	m.mu.Unlock()
	s.Orphan()                             // ends its renewals
	_, _ = m.client.Revoke(ctx, s.Lease()) // else it runs out
}

func (m *mutexes) close(context.Context) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session != nil {
		m.session.Orphan()
	}
}

type locked struct {
	of      *mutexes
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l locked) valid() bool {
	select {
	case <-l.session.Done():
		return false
	default:
		return true
	}
}

func (l locked) done() <-chan struct{} { return l.session.Done() }

// token is what its users have for one: the revision of the answer that granted the lock.
func (l locked) token() int64   { return l.mutex.Header().GetRevision() }
func (l locked) created() int64 { return 0 }
func (l locked) key() string    { return l.mutex.Key() }
func (l locked) lease() int64   { return int64(l.session.Lease()) }
func (l locked) why() string    { return "the session is done" }

// remaining is unknown: the session keeps its expiry to itself.
func (l locked) remaining() time.Duration { return 0 }
func (l locked) expired() bool            { return false }

// release gives the session up as well if it fails, or the key would block its name for as long as the session lives.
func (l locked) release(ctx context.Context) error {
	err := l.mutex.Unlock(ctx)
	if err != nil {
		l.of.drop(ctx, l.session)
	}
	return err
}
