// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/sqlfence"
)

// begin begins a transaction that ends with the test if not before.
func (db *database) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// eachLevel makes a test one that runs at every isolation level.
func eachLevel(test func(*testing.T, *database, *sqlfence.Fence, sql.IsolationLevel)) func(*testing.T, *database) {
	return func(t *testing.T, db *database) {
		for _, level := range db.levels {
			t.Run(level.String(), func(t *testing.T) { test(t, db, newFence(t, db), level) })
		}
	}
}

// raise raises the mark in a transaction of its own.
func (db *database) raise(t *testing.T, f *sqlfence.Fence, token leasehold.Token) {
	t.Helper()
	if err := f.Guard(db.DB, nil).Raise(t.Context(), t.Name(), token); err != nil {
		t.Fatal(err)
	}
}

// A transaction whose snapshot is older than the successor's mark must not pass: it is refused, or told to try again and
// refused then.
func testOldSnapshotDoesNotPass(t *testing.T, db *database, f *sqlfence.Fence, level sql.IsolationLevel) {
	if db.dialect == sqlfence.MySQL && level == sql.LevelSerializable {
		// Every read there locks what it reads, so the successor would wait for this transaction: nothing to show.
		t.Log("no snapshots at this level")
		return
	}
	db.raise(t, f, 1)
	old := db.begin(t, level)
	var n int
	if err := old.QueryRowContext(t.Context(), db.query("SELECT COUNT(*) FROM leasehold_marks WHERE resource = ?"), t.Name()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	raised := make(chan error, 1)
	go func() { raised <- f.Guard(db.DB, nil).Raise(context.WithoutCancel(t.Context()), t.Name(), 9) }()
	select {
	case err := <-raised:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Second):
		// SQLite's rollback journal: a reader keeps the writer out, there are no old snapshots.
		if err := old.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-raised; err != nil {
			t.Fatal(err)
		}
		t.Log("the successor waits for readers")
		return
	}
	err := f.CheckToken(t.Context(), old, t.Name(), 5)
	t.Logf("first answer: %v", err)
	if errors.Is(err, fence.ErrConflict) {
		if errors.Is(err, leasehold.ErrStaleToken) {
			t.Fatalf("%v is a conflict and a verdict", err)
		}
		if err := old.Rollback(); err != nil {
			t.Fatal(err)
		}
		err = f.CheckToken(t.Context(), db.begin(t, level), t.Name(), 5)
	}
	var stale *leasehold.StaleTokenError
	if !errors.As(err, &stale) || stale.Highest != 9 {
		t.Fatalf("got %v, want a refusal by 9", err)
	}
}

// A caller that commits in spite of a refusal must not have changed the mark.
func testCommitAfterARefusalChangesNoMark(t *testing.T, db *database, f *sqlfence.Fence, level sql.IsolationLevel) {
	db.raise(t, f, 9)
	tx := db.begin(t, level)
	if err := f.CheckToken(t.Context(), tx, t.Name(), 5); !errors.Is(err, leasehold.ErrStaleToken) {
		t.Fatalf("got %v, want leasehold.ErrStaleToken", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	db.raise(t, f, 9)
	if err := f.Guard(db.DB, nil).Raise(t.Context(), t.Name(), 8); !errors.Is(err, leasehold.ErrStaleToken) {
		t.Fatalf("token 8 after 9: got %v, want leasehold.ErrStaleToken", err)
	}
}

// A rolled-back transaction takes its raise with it, so that a holder that failed to write has not locked out others.
func testRollbackTakesTheMarkWithIt(t *testing.T, db *database, f *sqlfence.Fence, level sql.IsolationLevel) {
	tx := db.begin(t, level)
	if err := f.CheckToken(t.Context(), tx, t.Name(), 9); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	db.raise(t, f, 5)
}

// What a transaction reads after the check is as new as the mark: the successor sees what its predecessor wrote, although
// it began, and waited, before that was committed.
func testSuccessorReadsWhatItsPredecessorWrote(t *testing.T, db *database, f *sqlfence.Fence, level sql.IsolationLevel) {
	name, ctx := t.Name(), t.Context()
	old := db.begin(t, level)
	if err := f.CheckToken(ctx, old, name, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := old.ExecContext(ctx, db.query("INSERT INTO list (resource, value) VALUES (?, ?)"), name, "old"); err != nil {
		t.Fatal(err)
	}
	type result struct {
		seen int
		err  error
	}
	successor := make(chan result, 1)
	go func() {
		var r result
		for {
			r.err = db.inTx(ctx, level, func(tx *sql.Tx) error {
				if err := f.CheckToken(ctx, tx, name, 6); err != nil {
					return err
				}
				return tx.QueryRowContext(ctx, db.query("SELECT COUNT(*) FROM list WHERE resource = ?"), name).Scan(&r.seen)
			})
			if !sqlfence.Retryable(r.err) {
				break
			}
		}
		successor <- r
	}()
	select {
	case r := <-successor:
		t.Fatalf("the successor did not wait: %+v", r)
	case <-time.After(200 * time.Millisecond): // nothing tells that it waits
	}
	if err := old.Commit(); err != nil {
		t.Fatal(err)
	}
	if r := <-successor; r.err != nil || r.seen != 1 {
		t.Fatalf("the successor saw %d values, %v; want its predecessor's", r.seen, r.err)
	}
}

func testNothingIsSentWithoutAGrant(t *testing.T, db *database) {
	tx := db.begin(t, sql.LevelDefault)
	if err := newFence(t, db).Check(t.Context(), tx, t.Name()); !errors.Is(err, fence.ErrNoGrant) {
		t.Fatalf("got %v, want fence.ErrNoGrant", err)
	}
}

func testCreateTableMayRunTwice(t *testing.T, db *database) {
	f, err := sqlfence.New(db.dialect, sqlfence.Config{Table: "my_marks"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.CreateTable(t.Context(), db.DB); err != nil {
			t.Fatal(err)
		}
	}
	db.raise(t, f, 5)
}

// A holder that stops inside its transaction keeps the mark locked; the database's own limit on idle transactions lets its
// successor go on, and what the holder does when it wakes up fails.
func testIdleTransactionOfAStoppedHolderEnds(t *testing.T, db *database) {
	limit := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "SET LOCAL idle_in_transaction_session_timeout = '1s'",
		sqlfence.MySQL:      "SET SESSION idle_write_transaction_timeout = 1",
	}[db.dialect]
	if limit == "" {
		t.Log("no such limit: the database is in the process that stops")
		return
	}
	f := newFence(t, db)
	old := db.begin(t, sql.LevelDefault)
	if _, err := old.ExecContext(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	if err := f.CheckToken(t.Context(), old, t.Name(), 5); err != nil {
		t.Fatal(err)
	}
	db.raise(t, f, 6) // returns when the database has ended the other transaction
	if _, err := old.ExecContext(t.Context(), db.query("INSERT INTO list (resource, value) VALUES (?, ?)"), t.Name(), "late"); err == nil {
		if err := old.Commit(); err == nil {
			t.Fatal("the stopped holder's transaction was committed")
		}
	}
	if values, err := db.values(t.Context(), t.Name()); err != nil || len(values) != 0 {
		t.Fatalf("got %q, %v, want nothing of the stopped holder", values, err)
	}
}
