// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"database/sql"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	_ "modernc.org/sqlite"

	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/sqlfence"
)

func TestMain(m *testing.M) {
	servers.Main(map[string]servers.Role{sqliteRole: serveSQLite})
	// The driver reports every connection that a killed server leaves behind.
	if err := mysql.SetLogger(log.New(io.Discard, "", 0)); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}

// database is one that the tests run on.
type database struct {
	*sql.DB
	dialect sqlfence.Dialect
	restart func(context.Context) error // nil if there is nothing to restart
	levels  []sql.IsolationLevel
	variant bool // a database that was there before, with another driver or setting: its runs are shorter
}

// kind is a way to open a database.
type kind struct {
	name string
	open func(t *testing.T) *database
	// variant is that of the database.
	variant bool
}

// kinds are all databases and drivers; each opens an empty database.
func kinds() []kind {
	return []kind{
		{"PostgreSQL", func(t *testing.T) *database { return openPostgres(t, "pgx") }, false},
		{"PostgreSQL with pq", func(t *testing.T) *database { return openPostgres(t, "postgres") }, true},
		{"MariaDB", func(t *testing.T) *database { return openMariaDB(t, "") }, false},
		{"MariaDB with found rows", func(t *testing.T) *database { return openMariaDB(t, "?clientFoundRows=true&interpolateParams=true") }, true},
		{"MariaDB with snapshot isolation", func(t *testing.T) *database { return openMariaDB(t, "?innodb_snapshot_isolation=1") }, true},
		{"SQLite", func(t *testing.T) *database {
			return openSQLite(t, "_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
		}, false},
		{"SQLite with a rollback journal", func(t *testing.T) *database { return openSQLite(t, "_txlock=immediate") }, true},
	}
}

func openPostgres(t *testing.T, driver string) *database {
	server := servers.Postgres(t)
	db := &database{DB: openDB(t, driver, servers.PostgresURL(server)), dialect: sqlfence.PostgreSQL}
	db.levels = []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	return db.ready(t, server)
}

func openMariaDB(t *testing.T, options string) *database {
	server := servers.MariaDB(t)
	db := &database{DB: openDB(t, "mysql", servers.MariaDBDSN(server)+options), dialect: sqlfence.MySQL}
	db.levels = []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadUncommitted, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
	return db.ready(t, server)
}

func openSQLite(t *testing.T, options string) *database {
	path := filepath.Join(t.TempDir(), "data.db")
	db := &database{DB: openDB(t, "sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&"+options), dialect: sqlfence.SQLite}
	db.levels = []sql.IsolationLevel{sql.LevelDefault}
	return db.ready(t, nil)
}

func openDB(t *testing.T, driver, address string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxIdleConns(16)
	return db
}

// ready waits for the server and makes the tables.
func (db *database) ready(t *testing.T, server *servers.Server) *database {
	t.Helper()
	if server != nil {
		if err := server.Await(t.Context(), db.PingContext); err != nil {
			t.Fatal(err)
		}
		db.restart = func(ctx context.Context) error { return server.Restart(ctx, db.PingContext) }
	}
	serial := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "bigserial PRIMARY KEY",
		sqlfence.MySQL:      "BIGINT AUTO_INCREMENT PRIMARY KEY",
		sqlfence.SQLite:     "INTEGER PRIMARY KEY AUTOINCREMENT",
	}[db.dialect]
	text := map[sqlfence.Dialect]string{sqlfence.PostgreSQL: "text", sqlfence.MySQL: "VARBINARY(8000)", sqlfence.SQLite: "TEXT"}[db.dialect]
	for _, statement := range []string{
		sqlfence.Schema(db.dialect),
		"CREATE TABLE list (n " + serial + ", resource " + text + ", value " + text + ")",
		"CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, fence_token BIGINT)",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return db
}

// query makes the placeholders of a statement those of the database.
func (db *database) query(statement string) string {
	if db.dialect != sqlfence.PostgreSQL {
		return statement
	}
	var out []byte
	n := byte('0')
	for _, c := range []byte(statement) {
		if c == '?' {
			n++
			out = append(out, '$', n)
			continue
		}
		out = append(out, c)
	}
	return string(out)
}
