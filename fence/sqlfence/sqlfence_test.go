// SPDX-License-Identifier: Apache-2.0

package sqlfence_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.com/leasehold/fence"
	"example.com/leasehold/fence/sqlfence"
)

var badNames = []string{
	"a b", "a;b", `a"b`, "a`b", "a'b", "a-b", "é", "1a", ".a", "a.", "a.b.c", "a\x00", "a\n", "a(b)", strings.Repeat("a", 64),
	"marks; DROP TABLE marks",
}

func TestNew_RefusesTablesThatAreNotNames(t *testing.T) {
	for _, name := range badNames {
		if _, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.Config{Table: name}); err == nil {
			t.Errorf("table %q was accepted", name)
		}
	}
	for _, name := range []string{"", "marks", "_m", "Schema1.marks_2", strings.Repeat("a", 63)} {
		if _, err := sqlfence.New(sqlfence.PostgreSQL, sqlfence.Config{Table: name}); err != nil {
			t.Errorf("table %q: %v", name, err)
		}
	}
	if _, err := sqlfence.New(0, sqlfence.Config{}); err == nil {
		t.Error("the zero dialect was accepted")
	}
}

func TestNewRow_RefusesNamesThatAreNone(t *testing.T) {
	good := sqlfence.RowConfig{Table: "s.accounts", KeyColumn: "id", TokenColumn: "fence_token"}
	if _, err := sqlfence.NewRow(sqlfence.MySQL, good); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{""}, badNames...) {
		for what, config := range map[string]sqlfence.RowConfig{
			"table":        {Table: name, KeyColumn: "id", TokenColumn: "fence_token"},
			"key column":   {Table: "accounts", KeyColumn: name, TokenColumn: "fence_token"},
			"token column": {Table: "accounts", KeyColumn: "id", TokenColumn: name},
		} {
			if _, err := sqlfence.NewRow(sqlfence.SQLite, config); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s %q: got %v, want a refusal that names it", what, name, err)
			}
		}
	}
	if _, err := sqlfence.NewRow(sqlfence.SQLite, sqlfence.RowConfig{Table: "a", KeyColumn: "s.id", TokenColumn: "t"}); err == nil {
		t.Error("a column with a schema was accepted")
	}
}

// MySQLError has the shape of go-sql-driver's.
type MySQLError struct{ Number uint16 }

func (e *MySQLError) Error() string { return fmt.Sprint("Error ", e.Number) }

type sqlState string

func (e sqlState) Error() string    { return "state " + string(e) }
func (e sqlState) SQLState() string { return string(e) }

type sqliteCode int

func (e sqliteCode) Error() string { return fmt.Sprint("code ", int(e)) }
func (e sqliteCode) Code() int     { return int(e) }

func TestRetryable_KnowsTheConflictsOfEveryDriver(t *testing.T) {
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{errors.New("deadlock"), false}, // nothing is told by its text
		{fence.ErrConflict, true},
		{sqlState("40001"), true},
		{sqlState("40P01"), true},
		{sqlState("55P03"), true},
		{sqlState("23505"), false},
		{&MySQLError{1213}, true},
		{&MySQLError{1205}, true},
		{&MySQLError{1020}, true},
		{&MySQLError{1062}, false},
		{sqliteCode(5), true},
		{sqliteCode(5 | 2<<8), true}, // SQLITE_BUSY_SNAPSHOT
		{sqliteCode(6), true},
		{sqliteCode(19), false},
	} {
		for _, err := range []error{
			test.err,
			fmt.Errorf("wrapped: %w", test.err),
			errors.Join(errors.New("other"), test.err),
		} {
			if test.err == nil && err != nil {
				continue
			}
			if got := sqlfence.Retryable(err); got != test.want {
				t.Errorf("Retryable(%v) = %v, want %v", err, got, test.want)
			}
		}
	}
}
