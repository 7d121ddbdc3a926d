// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"database/sql"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/sqlfence"
)

func newFence(t *testing.T, db *database) *sqlfence.Fence {
	t.Helper()
	f, err := sqlfence.New(db.dialect, sqlfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// write makes one write in a transaction of its own.
func (db *database) write(ctx context.Context, f *sqlfence.Fence, level sql.IsolationLevel, resource string, token leasehold.Token, value string, pause func()) error {
	guard := f.Guard(db.DB, &sql.TxOptions{Isolation: level})
	return fence.Do(ctx, guard, resource, token, func(ctx context.Context) error {
		tx, _ := sqlfence.TxFrom(ctx)
		pause()
		_, err := tx.ExecContext(ctx, db.query("INSERT INTO list (resource, value) VALUES (?, ?)"), resource, value)
		return err
	})
}

func (db *database) values(ctx context.Context, resource string) ([]string, error) {
	rows, err := db.QueryContext(ctx, db.query("SELECT value FROM list WHERE resource = ? ORDER BY n"), resource)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

func (db *database) subject(f *sqlfence.Fence, level sql.IsolationLevel) fencetest.Subject {
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return db.write(ctx, f, level, resource, token, value, func() {})
		},
		WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
			return db.write(ctx, f, level, resource, token, value, pause)
		},
		Values:  db.values,
		Restart: db.restart,
	}
}

// TestFences runs every test on every database, with one server for all of them.
func TestFences(t *testing.T) {
	tests := []struct {
		name string
		run  func(*testing.T, *database)
	}{
		{"Conformance", testConformance},
		{"OldSnapshotDoesNotPass", eachLevel(testOldSnapshotDoesNotPass)},
		{"CommitAfterARefusalChangesNoMark", eachLevel(testCommitAfterARefusalChangesNoMark)},
		{"RollbackTakesTheMarkWithIt", eachLevel(testRollbackTakesTheMarkWithIt)},
		{"SuccessorReadsWhatItsPredecessorWrote", eachLevel(testSuccessorReadsWhatItsPredecessorWrote)},
		{"IdleTransactionOfAStoppedHolderEnds", testIdleTransactionOfAStoppedHolderEnds},
		{"CreateTableMayRunTwice", testCreateTableMayRunTwice},
		{"NothingIsSentWithoutAGrant", testNothingIsSentWithoutAGrant},
		{"RowConformance", testRowConformance},
		{"RowSaysWhatBecameOfIt", testRowSaysWhatBecameOfIt},
		{"BehindHTTP", testBehindHTTP},
	}
	for _, kind := range kinds() {
		t.Run(kind.name, func(t *testing.T) {
			db := kind.open(t)
			db.variant = kind.variant
			for _, test := range tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, db) })
			}
		})
	}
}

func testConformance(t *testing.T, db *database) {
	f := newFence(t, db)
	for _, level := range db.levels {
		options := fencetest.Options{}
		if level != sql.LevelDefault || db.variant {
			options.Writes = 500 // the long run is made once for each database
		}
		t.Run(level.String(), func(t *testing.T) {
			fencetest.Run(t, func(*testing.T) fencetest.Subject { return db.subject(f, level) }, options)
		})
	}
}
