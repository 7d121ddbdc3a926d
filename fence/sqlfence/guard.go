// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"fmt"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Guard is a [fence.Guard] that makes a write in a transaction of its own, for middleware such as that of package httpfence:
// the handler writes in the transaction of [TxFrom], and what it wrote is kept only if the transaction commits. It implements
// [fence.Marks] too.
type Guard struct {
	fence   *Fence
	db      *sql.DB
	options *sql.TxOptions
}

// Guard returns a guard that begins its transactions on db with these options, which may be nil.
func (f *Fence) Guard(db *sql.DB, options *sql.TxOptions) *Guard {
	return &Guard{fence: f, db: db, options: options}
}

// Begin implements [fence.Guard]: it begins a transaction and checks the token in it. The transaction is rolled back when
// ctx ends.
func (g *Guard) Begin(ctx context.Context, resource string, token leasehold.Token) (fence.Admission, error) {
	write := fence.Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return nil, err
	}
	tx, err := g.db.BeginTx(ctx, g.options)
	if err != nil {
		return nil, fmt.Errorf("sqlfence: begin a write to %q: %w", resource, classify(err))
	}
	if err := g.fence.CheckToken(ctx, tx, resource, token); err != nil {
		rollback(tx)
		return nil, err
	}
	ctx = context.WithValue(fence.NewContext(ctx, write), txKey{}, tx)
	return &admission{ctx: ctx, tx: tx, resource: resource}, nil
}

// Raise implements [fence.Marks].
func (g *Guard) Raise(ctx context.Context, resource string, token leasehold.Token) error {
	return fence.Do(ctx, g, resource, token, func(context.Context) error { return nil })
}

type txKey struct{}

// TxFrom returns the transaction that a Guard began, from the context of its admission. The caller must neither commit nor
// roll it back.
func TxFrom(ctx context.Context) (*sql.Tx, bool) {
	tx, ok := ctx.Value(txKey{}).(*sql.Tx)
	return tx, ok
}

type admission struct {
	ctx      context.Context
	tx       *sql.Tx
	resource string
}

func (a *admission) Context() context.Context { return a.ctx }

// Commit leaves the outcome unknown if its error does not match fence.ErrConflict.
func (a *admission) Commit() error {
	if err := a.tx.Commit(); err != nil {
		return fmt.Errorf("sqlfence: commit a write to %q: %w", a.resource, classify(err))
	}
	return nil
}

func (a *admission) Discard() { rollback(a.tx) }

// rollback ends tx. Its error says that tx had ended before or that the connection is gone, and then the server rolls
// back.
func rollback(tx *sql.Tx) { _ = tx.Rollback() }
