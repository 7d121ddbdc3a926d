// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// RowConfig says where a [RowFence] finds the token of a row. All names are ASCII letters, digits and underscores.
type RowConfig struct {
	// Table is the caller's table, with or without a schema.
	Table string
	// KeyColumn is the column that names a row. It must be unique.
	KeyColumn string
	// TokenColumn keeps the highest token that wrote to the row: a 64-bit integer. NULL, or a number that is not
	// positive, stands for a row that no token has written to yet.
	TokenColumn string
}

// RowFence is the fence for those who keep the token in the row that it guards: no second table, and with Update no second
// statement. It is safe for concurrent use. The resource that its errors name is "table/key".
type RowFence struct {
	dialect Dialect
	RowConfig
}

// NewRow returns a fence for the rows of one table.
func NewRow(dialect Dialect, config RowConfig) (*RowFence, error) {
	if !dialect.valid() {
		return nil, fmt.Errorf("sqlfence: unknown dialect %v", dialect)
	}
	var problems []error
	for _, name := range []struct {
		what, name string
		schema     bool
	}{{"table", config.Table, true}, {"key column", config.KeyColumn, false}, {"token column", config.TokenColumn, false}} {
		if !validName(name.name, name.schema) {
			problems = append(problems, fmt.Errorf("%s %.100q: want ASCII letters, digits and underscores", name.what, name.name))
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("sqlfence: %w", errors.Join(problems...))
	}
	return &RowFence{dialect: dialect, RowConfig: config}, nil
}

// Check is [RowFence.CheckToken] with the token of the grant in ctx; see [Fence.Check].
func (f *RowFence) Check(ctx context.Context, tx *sql.Tx, key any) error {
	token, err := fence.TokenFrom(ctx)
	if err != nil {
		return err
	}
	return f.CheckToken(ctx, tx, key, token)
}

// CheckToken admits token for the row of that key until tx ends; see [Fence.CheckToken]. A row that is not there is
// [sql.ErrNoRows].
func (f *RowFence) CheckToken(ctx context.Context, tx *sql.Tx, key any, token leasehold.Token) error {
	return f.update(ctx, tx, key, token, "", nil)
}

// Update checks the token and changes the row, in one statement: set is what stands between SET and WHERE, with
// parameters for args in the manner of the dialect ("balance = $1" for PostgreSQL, "balance = ?" for the others). It
// is part of the SQL and must not be made of anybody's input. Errors are those of [RowFence.CheckToken].
func (f *RowFence) Update(ctx context.Context, tx *sql.Tx, key any, token leasehold.Token, set string, args ...any) error {
	if set == "" {
		return errors.New("sqlfence: update that sets nothing")
	}
	return f.update(ctx, tx, key, token, set, args)
}

func (f *RowFence) update(ctx context.Context, tx *sql.Tx, key any, token leasehold.Token, set string, args []any) error {
	resource := fmt.Sprintf("%s/%v", f.Table, key)
	if token <= 0 {
		return fence.Write{Resource: f.Table, Token: token}.Validate()
	}
	fail := func(err error) error {
		return fmt.Errorf("sqlfence: write with token %s to %q: %w", token, resource, classify(err))
	}
	statement, all := f.statement(key, token, set, args)
	// The second round is MySQL's alone: its count leaves out a row that matched and stayed as it was.
	for round := range 2 {
		result, err := tx.ExecContext(ctx, statement, all...)
		if err != nil {
			return fail(err)
		}
		affected, err := result.RowsAffected()
		if err != nil {
			return fail(err)
		}
		if affected > 1 {
			return fail(fmt.Errorf("%d rows have that key: roll back", affected))
		}
		if affected == 1 || round == 1 {
			return nil
		}
		highest, err := f.read(ctx, tx, key)
		if err != nil {
			return fail(err)
		}
		if highest > token {
			return &leasehold.StaleTokenError{Resource: resource, Token: token, Highest: highest}
		}
		if f.dialect != MySQL {
			// The statement did not find what the next one finds: the row came in between.
			return fail(fmt.Errorf("%w: the row was not there", fence.ErrConflict))
		}
		// The row is there, with a token that passes, and locked since it was read. Either it matched and stayed as it
		// was, then doing it again changes nothing; or it came in between, then doing it again does it.
	}
	return nil
}

// statement returns the update and its arguments.
func (f *RowFence) statement(key any, token leasehold.Token, set string, args []any) (string, []any) {
	d, column, n := f.dialect, f.dialect.quote(f.TokenColumn), len(args)
	var b strings.Builder
	b.WriteString("UPDATE " + d.quote(f.Table) + " SET ")
	if set != "" {
		b.WriteString(set + ", ")
	}
	fmt.Fprintf(&b, "%s = %s WHERE %s = %s AND (%s IS NULL OR %s <= %s)",
		column, d.param(n+1), d.quote(f.KeyColumn), d.param(n+2), column, column, d.param(n+3))
	return b.String(), append(slices.Clone(args), int64(token), key, int64(token))
}

// read returns the row's token, zero if it has none, after a statement that did not match.
func (f *RowFence) read(ctx context.Context, tx *sql.Tx, key any) (leasehold.Token, error) {
	d := f.dialect
	query := "SELECT " + d.quote(f.TokenColumn) + " FROM " + d.quote(f.Table) + " WHERE " + d.quote(f.KeyColumn) + " = " + d.param(1)
	if d == MySQL {
		query += " FOR UPDATE"
	}
	var token sql.NullInt64
	if err := tx.QueryRowContext(ctx, query, key).Scan(&token); err != nil {
		return 0, err
	}
	return leasehold.Token(token.Int64), nil
}
