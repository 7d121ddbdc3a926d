// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
)

// A subject is one of those that are compared.
type subject string

const (
	ours   subject = "leasehold"
	theirs subject = "concurrency"
	floor  subject = "bare" // etcd operations that do what any lock over etcd has to do
)

var (
	pair = []subject{ours, theirs}
	all  = []subject{ours, theirs, floor}
)

// A locker locks names under a lease of its own. Its methods are safe for concurrent use.
type locker interface {
	lock(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	close(ctx context.Context) error
}

// prefixes makes every opened locker's names its own.
var prefixes atomic.Int64

func newPrefix() string { return fmt.Sprintf("bench-%d/", prefixes.Add(1)) }

// open opens a locker over an etcd client, as a service would that wants to lock names under a prefix.
func (s subject) open(ctx context.Context, client *clientv3.Client, prefix string, ttl time.Duration) (locker, error) {
	switch s {
	case ours:
		c, err := leasehold.New(client, leasehold.Config{TTL: ttl, Prefix: prefix})
		if err != nil {
			return nil, err
		}
		return leaseholdLocker{c}, nil
	case theirs:
		session, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)))
		if err != nil {
			return nil, err
		}
		return mutexLocker{session, prefix}, nil
	case floor:
		lease, err := client.Grant(ctx, int64(ttl/time.Second))
		if err != nil {
			return nil, err
		}
		return bareLocker{client, lease.ID, prefix}, nil
	}
	return nil, fmt.Errorf("no subject %q", s)
}

type leaseholdLocker struct{ *leasehold.Client }

func (l leaseholdLocker) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	g, err := l.Lock(ctx, name)
	if err != nil {
		return nil, err
	}
	return g.Release, nil
}

func (l leaseholdLocker) close(ctx context.Context) error { return l.Close(ctx) }

// mutexLocker keeps one name at most once at a time: the mutexes of one session do not exclude each other.
type mutexLocker struct {
	session *concurrency.Session
	prefix  string
}

func (l mutexLocker) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	m := concurrency.NewMutex(l.session, l.prefix+name)
	if err := m.Lock(ctx); err != nil {
		return nil, err
	}
	return m.Unlock, nil
}

func (l mutexLocker) close(context.Context) error { return l.session.Close() }

// bareLocker does not wait, does not renew and does not look: the least that a lock over etcd costs.
type bareLocker struct {
	client *clientv3.Client
	lease  clientv3.LeaseID
	prefix string
}

var errTaken = errors.New("the name is taken")

func (l bareLocker) lock(ctx context.Context, name string) (func(context.Context) error, error) {
	key := l.prefix + name
	resp, err := l.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, "", clientv3.WithLease(l.lease))).Commit()
	if err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		return nil, errTaken
	}
	return func(ctx context.Context) error {
		_, err := l.client.Delete(ctx, key)
		return err
	}, nil
}

func (l bareLocker) close(ctx context.Context) error {
	_, err := l.client.Revoke(ctx, l.lease)
	return err
}
