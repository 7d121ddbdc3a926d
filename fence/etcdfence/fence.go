// SPDX-License-Identifier: Apache-2.0

// Package etcdfence fences writes to etcd for writers that hold only a token: a worker that was handed a job together
// with the token, or one whose grant comes from another cluster's name space of the same etcd.
//
// Who holds the grant itself does not need it: leasehold's Grant.Txn makes the caller's transaction conditional on the
// grant's own key, which is stricter, because it ends with the grant and not with the next one.
//
// The mark of a resource is a key of its own, compared and raised in the transaction that makes the writes: one request,
// whatever the outcome. The tokens of all writers of a resource must come from one etcd cluster.
package etcdfence

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// DefaultPrefix is what the keys of marks begin with unless Config says otherwise.
const DefaultPrefix = "leasehold-marks/"

// ErrCorruptMark reports that the key of a mark holds something else. Nothing was changed.
var ErrCorruptMark = errors.New("etcdfence: the mark's key does not hold a token")

// Config tunes a [Fence]. The zero value works.
type Config struct {
	// Prefix is put before the name of a resource to make the key of its mark. Default [DefaultPrefix]; at most 1,024
	// bytes of valid UTF-8. It must not reach into the prefix of locks. All writers of a resource use the same one.
	Prefix string
}

// Fence keeps marks in etcd, next to the data that it guards. It implements [fence.Marks]. A Fence is safe for concurrent
// use.
type Fence struct {
	kv     clientv3.KV
	prefix string
}

// New returns a fence for writes through kv, which is a client or a namespaced view of one.
func New(kv clientv3.KV, config Config) (*Fence, error) {
	if kv == nil {
		return nil, errors.New("etcdfence: no etcd client")
	}
	prefix := config.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if len(prefix) > 1024 || !utf8.ValidString(prefix) {
		return nil, fmt.Errorf("etcdfence: prefix of %d bytes: want at most 1024 of valid UTF-8", len(prefix))
	}
	return &Fence{kv: kv, prefix: prefix}, nil
}

// Key returns the key of the mark of resource. Its value is the token in 20 decimal digits, so that etcd's comparison of
// bytes is one of numbers. Writes to it that do not come from this package break the fence; deleting it forgets the mark.
func (f *Fence) Key(resource string) string { return f.prefix + resource }

// Raise admits token for resource without a write of the caller's. Errors are those of [Txn.Commit].
func (f *Fence) Raise(ctx context.Context, resource string, token leasehold.Token) error {
	_, err := f.Txn(ctx, resource, token).Commit()
	return err
}

// Txn begins a transaction that runs only if token is not lower than the highest that was admitted for resource.
func (f *Fence) Txn(ctx context.Context, resource string, token leasehold.Token) *Txn {
	return &Txn{ctx: ctx, fence: f, write: fence.Write{Resource: resource, Token: token}}
}

// GrantTxn is [Fence.Txn] with the token of the grant in ctx. Without a valid grant there, Commit sends nothing and returns
// the error of [fence.TokenFrom].
func (f *Fence) GrantTxn(ctx context.Context, resource string) *Txn {
	token, err := fence.TokenFrom(ctx)
	txn := f.Txn(ctx, resource, token)
	txn.err = err
	return txn
}
