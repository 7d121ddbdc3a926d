// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"fmt"
	"strings"
)

// Dialect is the SQL of one kind of database.
type Dialect int

const (
	// PostgreSQL is PostgreSQL 9.5 and later, and databases that speak its SQL and lock rows as it does.
	PostgreSQL Dialect = iota + 1
	// MySQL is MySQL 5.7 and later and MariaDB 10.2 and later, with InnoDB.
	MySQL
	// SQLite is SQLite 3.24 and later.
	SQLite
)

// String returns the name of the dialect.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

func (d Dialect) valid() bool { return d >= PostgreSQL && d <= SQLite }

// param is the n-th parameter of a statement, counted from 1.
func (d Dialect) param(n int) string {
	if d == PostgreSQL {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// quote makes a name that [validName] accepts an identifier, part by part.
func (d Dialect) quote(name string) string {
	mark := `"`
	if d == MySQL {
		mark = "`"
	}
	return mark + strings.ReplaceAll(name, ".", mark+"."+mark) + mark
}

// validName reports whether name can be a table or a column: ASCII letters, digits and underscores, not beginning with
// a digit, with at most one dot between a schema and a table. Names of tables come from programs, not from users; the rule
// keeps a mistake there from becoming SQL.
func validName(name string, schema bool) bool {
	parts := strings.Split(name, ".")
	if len(parts) > 2 || len(parts) == 2 && !schema {
		return false
	}
	for _, part := range parts {
		if part == "" || len(part) > 63 || part[0] >= '0' && part[0] <= '9' {
			return false
		}
		for _, c := range []byte(part) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
				return false
			}
		}
	}
	return true
}

// DefaultTable is the table of the marks unless Config says otherwise.
const DefaultTable = "leasehold_marks"

// Schema returns the statement that makes the table of the marks, [DefaultTable], for your migrations. It does nothing if
// the table is there. Names of resources are compared byte by byte, whatever the collation of the database is.
func Schema(d Dialect) string { return schema(d, DefaultTable) }

func schema(d Dialect, table string) string {
	switch d {
	case PostgreSQL:
		return "CREATE TABLE IF NOT EXISTS " + d.quote(table) + ` (
	resource text COLLATE "C" PRIMARY KEY CHECK (octet_length(resource) BETWEEN 1 AND 1024),
	token bigint NOT NULL CHECK (token > 0)
)`
	case MySQL:
		// Binary, because text collations take "a" and "A", or "a" and "a ", for one name.
		return "CREATE TABLE IF NOT EXISTS " + d.quote(table) + ` (
	resource VARBINARY(1024) NOT NULL PRIMARY KEY,
	token BIGINT NOT NULL
) ENGINE=InnoDB`
	case SQLite:
		return "CREATE TABLE IF NOT EXISTS " + d.quote(table) + ` (
	resource TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
	token INTEGER NOT NULL CHECK (token > 0)
) WITHOUT ROWID`
	}
	return ""
}

// Statements are the SQL of a [Fence], for adapters of other ways to talk to a database. For PostgreSQL and SQLite, Raise
// takes the resource and the token and affects one row if the token is admitted; if it affects none, Read takes the resource and
// returns the mark that was in the way. For MySQL, Raise takes the resource and twice the token and its last insert id is the
// mark afterwards.
type Statements struct {
	Raise string // admits a token and raises the mark
	Read  string // reads the mark
}

// StatementsOf returns the statements of the fence that [New] would return.
func StatementsOf(dialect Dialect, config Config) (Statements, error) {
	f, err := New(dialect, config)
	if err != nil {
		return Statements{}, err
	}
	return f.sql, nil
}

func (d Dialect) statements(table string) Statements {
	name := d.quote(table)
	read := "SELECT token FROM " + name + " WHERE resource = " + d.param(1)
	if d == MySQL {
		// The affected rows cannot tell an equal token from a lower one, and whether they count a row that stayed as it
		// was is a setting of the connection. So the statement hands back the mark as it is afterwards, through the only
		// number that travels with its answer.
		return Statements{
			Read: read,
			Raise: "INSERT INTO " + name + " (resource, token) VALUES (?, LAST_INSERT_ID(?)) " +
				"ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(GREATEST(token, ?))",
		}
	}
	return Statements{
		Read: read,
		Raise: "INSERT INTO " + name + " AS mark (resource, token) VALUES (" + d.param(1) + ", " + d.param(2) + ") " +
			"ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE mark.token <= excluded.token",
	}
}
