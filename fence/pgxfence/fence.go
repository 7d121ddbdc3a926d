// SPDX-License-Identifier: Apache-2.0

// Package pgxfence is package sqlfence for those who use PostgreSQL through pgx itself. It shares the table, the statement
// and the promises; see there for isolation levels and for what to watch.
package pgxfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/sqlfence"
)

// Config tunes a [Fence]. The zero value works.
type Config = sqlfence.Config

// Fence keeps marks in a table of the database whose data they guard. It is safe for concurrent use.
type Fence struct {
	statements sqlfence.Statements
}

// New returns a fence.
func New(config Config) (*Fence, error) {
	statements, err := sqlfence.StatementsOf(sqlfence.PostgreSQL, config)
	if err != nil {
		return nil, err
	}
	return &Fence{statements: statements}, nil
}

// Check is [Fence.CheckToken] with the token of the grant in ctx. Without a valid grant there, nothing is sent and the error
// is that of [fence.TokenFrom].
func (f *Fence) Check(ctx context.Context, tx pgx.Tx, resource string) error {
	token, err := fence.TokenFrom(ctx)
	if err != nil {
		return err
	}
	return f.CheckToken(ctx, tx, resource, token)
}

// CheckToken admits token for resource until tx ends, or refuses it with a [*leasehold.StaleTokenError]; the caller then
// rolls back. It waits for transactions that were admitted before. An error that matches [fence.ErrConflict] asks for
// the whole transaction to be run again. After any error nothing has changed, and tx is good for nothing but a rollback.
func (f *Fence) CheckToken(ctx context.Context, tx pgx.Tx, resource string, token leasehold.Token) error {
	write := fence.Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return err
	}
	fail := func(err error) error {
		if sqlfence.Retryable(err) && !errors.Is(err, fence.ErrConflict) {
			err = fmt.Errorf("%w: %w", fence.ErrConflict, err)
		}
		return fmt.Errorf("pgxfence: check token %s for %q: %w", token, resource, err)
	}
	tag, err := tx.Exec(ctx, f.statements.Raise, resource, int64(token))
	if err != nil {
		return fail(err)
	}
	if tag.RowsAffected() == 1 {
		return nil
	}
	// Refused, and the row is locked: this reads the very mark that was in the way.
	var highest int64
	if err := tx.QueryRow(ctx, f.statements.Read, resource).Scan(&highest); err != nil {
		return fail(err)
	}
	if leasehold.Token(highest) <= token {
		return fail(fmt.Errorf("%w: the mark is %d and was not raised", fence.ErrConflict, highest))
	}
	return &leasehold.StaleTokenError{Resource: resource, Token: token, Highest: leasehold.Token(highest)}
}
