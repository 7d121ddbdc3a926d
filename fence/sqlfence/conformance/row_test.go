// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/sqlfence"
)

func newRow(t *testing.T, db *database, table, key string) *sqlfence.RowFence {
	t.Helper()
	f, err := sqlfence.NewRow(db.dialect, sqlfence.RowConfig{Table: table, KeyColumn: key, TokenColumn: "fence_token"})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// inTx runs write in a transaction.
func (db *database) inTx(ctx context.Context, level sql.IsolationLevel, write func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// A row with a list in it: the update that checks the token appends the value.
func testRowConformance(t *testing.T, db *database) {
	text := map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "text", sqlfence.MySQL: "VARBINARY(1024)", sqlfence.SQLite: "TEXT"}[db.dialect]
	long := map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "text", sqlfence.MySQL: "LONGBLOB", sqlfence.SQLite: "TEXT"}[db.dialect]
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE docs (name "+text+" PRIMARY KEY, body "+long+" NOT NULL, fence_token BIGINT)"); err != nil {
		t.Fatal(err)
	}
	f := newRow(t, db, "docs", "name")
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return db.rowSubject(f) }, fencetest.Options{Writes: 500})
}

func (db *database) rowSubject(f *sqlfence.RowFence) fencetest.Subject {
	insert := db.query("INSERT INTO docs (name, body) VALUES (?, '') ON CONFLICT DO NOTHING")
	set := db.query("body = body || CAST(? AS text)")
	if db.dialect == sqlfence.MySQL {
		insert, set = "INSERT IGNORE INTO docs (name, body) VALUES (?, '')", "body = CONCAT(body, ?)"
	}
	write := func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
		if err := (fence.Write{Resource: resource, Token: token}).Validate(); err != nil {
			return err // keys are the caller's own and may be anything
		}
		if _, err := db.ExecContext(ctx, insert, resource); err != nil {
			return err
		}
		err := db.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
			err := f.Update(ctx, tx, resource, token, set, value+"\x1f")
			if err == nil {
				pause()
			}
			return err
		})
		var stale *leasehold.StaleTokenError
		if errors.As(err, &stale) {
			return &leasehold.StaleTokenError{Resource: strings.TrimPrefix(stale.Resource, "docs/"), Token: stale.Token, Highest: stale.Highest}
		}
		return err
	}
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return write(ctx, resource, token, value, func() {})
		},
		WritePaused: write,
		Values: func(ctx context.Context, resource string) ([]string, error) {
			var body string
			err := db.QueryRowContext(ctx, db.query("SELECT body FROM docs WHERE name = ?"), resource).Scan(&body)
			if errors.Is(err, sql.ErrNoRows) || body == "" {
				return nil, nil
			}
			return strings.Split(strings.TrimSuffix(body, "\x1f"), "\x1f"), err
		},
		Restart: db.restart,
	}
}

func testRowSaysWhatBecameOfIt(t *testing.T, db *database) {
	f := newRow(t, db, "accounts", "id")
	ctx := t.Context()
	if _, err := db.ExecContext(ctx, "INSERT INTO accounts (id, balance) VALUES (1, 100)"); err != nil {
		t.Fatal(err)
	}
	update := func(key int, token leasehold.Token, set string, args ...any) error {
		return db.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return f.Update(ctx, tx, key, token, db.query(set), args...) })
	}
	check := func(key int, token leasehold.Token) error {
		return db.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return f.CheckToken(ctx, tx, key, token) })
	}
	// A row that no token has written to yet, then a change, then one that changes nothing: MySQL counts no row for it.
	for _, balance := range []int{150, 200, 200, 200} {
		if err := update(1, 5, "balance = ?", balance); err != nil {
			t.Fatalf("balance %d: %v", balance, err)
		}
	}
	if err := check(1, 5); err != nil {
		t.Fatalf("the same token again: %v", err)
	}
	for _, err := range []error{update(1, 4, "balance = balance - ?", 200), check(1, 4)} {
		var stale *leasehold.StaleTokenError
		if !errors.As(err, &stale) || *stale != (leasehold.StaleTokenError{Resource: "accounts/1", Token: 4, Highest: 5}) {
			t.Errorf("lower token: got %v, want a refusal by 5", err)
		}
	}
	for _, err := range []error{update(2, 5, "balance = ?", 1), check(2, 5)} {
		if !errors.Is(err, sql.ErrNoRows) || errors.Is(err, leasehold.ErrStaleToken) {
			t.Errorf("no such row: got %v, want sql.ErrNoRows", err)
		}
	}
	if err := check(1, 0); !errors.Is(err, fence.ErrInvalidToken) {
		t.Errorf("token 0: got %v, want fence.ErrInvalidToken", err)
	}
	if err := db.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error { return f.Check(ctx, tx, 1) }); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("without a grant: got %v, want fence.ErrNoGrant", err)
	}
	var balance, token int64
	if err := db.QueryRowContext(ctx, "SELECT balance, fence_token FROM accounts WHERE id = 1").Scan(&balance, &token); err != nil {
		t.Fatal(err)
	}
	if balance != 200 || token != 5 {
		t.Errorf("balance %d with token %d, want 200 with 5", balance, token)
	}
}
