// SPDX-License-Identifier: Apache-2.0

// Package sqlfence fences writes to PostgreSQL, MySQL, MariaDB and SQLite, inside the caller's own transaction and
// through database/sql, with whatever driver the caller has.
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	if err := fences.Check(ctx, tx, "orders"); err != nil { // the grant is in ctx
//		return err // a *leasehold.StaleTokenError: somebody newer has been here
//	}
//	_, err = tx.ExecContext(ctx, "UPDATE orders SET ...")
//	...
//	return tx.Commit()
//
// # How it is atomic
//
// The check is one statement, an upsert that raises the mark unless the mark is higher. It locks the row of the mark until
// the transaction ends, so from the check to the commit nobody else can pass the check of that resource: a higher token
// waits for the commit, and then the write with the lower one came before it. A transaction that is rolled back takes its
// raise of the mark with it. It does not matter where in the transaction the check stands. First, it fails early, and what
// the transaction reads afterwards is as new as the mark; last, the lock is held for the shortest time.
//
// # Isolation levels
//
// READ COMMITTED is enough. At REPEATABLE READ and SERIALIZABLE, a database that finds that the mark was
// changed since the transaction's snapshot says so instead of deciding; that error matches [fence.ErrConflict] and the
// whole transaction is to be run again, with the same token, which the next run will find good or stale. The same goes for a
// deadlock, and for SQLITE_BUSY when a deferred transaction has read before it checks.
//
// # What to watch
//
// A holder that stops in the middle of a transaction holds the lock of the mark, and its successor waits, until the
// database ends the idle transaction: set idle_in_transaction_session_timeout (PostgreSQL) or
// idle_write_transaction_timeout (MariaDB), or a wait_timeout. Writers of one resource run one after another; choose
// resources as fine as your locks.
package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Config tunes a [Fence]. The zero value works.
type Config struct {
	// Table is the table of the marks, with or without a schema: ASCII letters, digits and underscores. Default
	// [DefaultTable].
	Table string
}

// Fence keeps marks in a table of the database whose data they guard. It is safe for concurrent use.
type Fence struct {
	dialect Dialect
	table   string
	sql     Statements
}

// New returns a fence for databases of the given dialect.
func New(dialect Dialect, config Config) (*Fence, error) {
	if !dialect.valid() {
		return nil, fmt.Errorf("sqlfence: unknown dialect %v", dialect)
	}
	table := config.Table
	if table == "" {
		table = DefaultTable
	}
	if !validName(table, true) {
		return nil, fmt.Errorf("sqlfence: table %.100q: want ASCII letters, digits and underscores, with a schema or without", table)
	}
	return &Fence{dialect: dialect, table: table, sql: dialect.statements(table)}, nil
}

// CreateTable makes the table of the marks if it is not there, for those who have no migrations. See [Schema].
func (f *Fence) CreateTable(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, schema(f.dialect, f.table)); err != nil {
		return fmt.Errorf("sqlfence: create table %s: %w", f.table, err)
	}
	return nil
}

// Check is [Fence.CheckToken] with the token of the grant in ctx. Without a valid grant there, nothing is sent and the
// error is that of [fence.TokenFrom].
func (f *Fence) Check(ctx context.Context, tx *sql.Tx, resource string) error {
	token, err := fence.TokenFrom(ctx)
	if err != nil {
		return err
	}
	return f.CheckToken(ctx, tx, resource, token)
}

// CheckToken admits token for resource until tx ends, or refuses it with a [*leasehold.StaleTokenError]; the caller then
// rolls back. It waits for transactions that were admitted before. An error that matches [fence.ErrConflict] asks for
// the whole transaction to be run again. After any error nothing has changed, and tx is good for nothing but a rollback.
func (f *Fence) CheckToken(ctx context.Context, tx *sql.Tx, resource string, token leasehold.Token) error {
	write := fence.Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return err
	}
	highest, err := f.raise(ctx, tx, write)
	if err != nil {
		return fmt.Errorf("sqlfence: check token %s for %q: %w", token, resource, classify(err))
	}
	if highest > token {
		return &leasehold.StaleTokenError{Resource: resource, Token: token, Highest: highest}
	}
	return nil
}

// raise returns the mark after the attempt to raise it: the token itself if it was admitted.
func (f *Fence) raise(ctx context.Context, tx *sql.Tx, w fence.Write) (leasehold.Token, error) {
	if f.dialect == MySQL {
		// As bytes, so that no character set of the connection has a say.
		result, err := tx.ExecContext(ctx, f.sql.Raise, []byte(w.Resource), int64(w.Token), int64(w.Token))
		if err != nil {
			return 0, err
		}
		highest, err := result.LastInsertId()
		if err == nil && leasehold.Token(highest) < w.Token {
			err = fmt.Errorf("the driver's LastInsertId is %d, want at least the token", highest)
		}
		return leasehold.Token(highest), err
	}
	result, err := tx.ExecContext(ctx, f.sql.Raise, w.Resource, int64(w.Token))
	if err != nil {
		return 0, err
	}
	affected, err := result.RowsAffected()
	if err != nil || affected == 1 {
		return w.Token, err
	}
	// Refused: the row is there, higher and (where there are row locks) locked by the upsert that did not touch it, so
	// this reads the very mark that was in the way.
	var highest int64
	if err := tx.QueryRowContext(ctx, f.sql.Read, w.Resource).Scan(&highest); err != nil {
		return 0, err
	}
	if leasehold.Token(highest) <= w.Token {
		return 0, errors.Join(fence.ErrConflict, fmt.Errorf("the mark is %d and was not raised", highest))
	}
	return leasehold.Token(highest), nil
}
