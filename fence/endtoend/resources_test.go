// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	"example.com/leasehold/fence"
	"example.com/leasehold/fence/internal/lists"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/internal/servers/etcdserver"
	"example.com/leasehold/fence/sqlfence"
)

const holderRole = "holder"

func TestMain(m *testing.M) {
	servers.Main(map[string]servers.Role{etcdserver.Role: etcdserver.Serve, holderRole: serveHolder})
	os.Exit(m.Run())
}

// addresses say where the resources are; they are handed to the process of the holder.
type addresses struct {
	Etcd, Postgres, MariaDB, SQLite, Redis, HTTP, GRPC, S3 string
}

const bucket = "fence"

// start starts every resource and makes its tables. Each database has one for the marks, one for the fenced writes and one
// for the others.
func start(tb testing.TB) addresses {
	tb.Helper()
	etcd, _ := etcdserver.Start(tb)
	postgres, maria, redis, gateway := servers.Postgres(tb), servers.MariaDB(tb), servers.Redis(tb), servers.S3(tb)
	a := addresses{
		Etcd: etcd.Addr, Redis: redis.Addr, S3: gateway.Addr,
		Postgres: servers.PostgresURL(postgres),
		MariaDB:  servers.MariaDBDSN(maria),
		SQLite:   "file:" + filepath.Join(tb.TempDir(), "data.db") + "?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		HTTP:     startHTTP(tb),
		GRPC:     startGRPC(tb),
	}
	for _, d := range []struct {
		server          *servers.Server
		driver, address string
		dialect         sqlfence.Dialect
	}{
		{postgres, "pgx", a.Postgres, sqlfence.PostgreSQL},
		{maria, "mysql", a.MariaDB, sqlfence.MySQL},
		{nil, "sqlite", a.SQLite, sqlfence.SQLite},
	} {
		makeTables(tb, d.server, d.driver, d.address, d.dialect)
	}
	objects := s3Client(a.S3)
	ready := func(ctx context.Context) error {
		_, err := objects.ListBuckets(ctx, &s3.ListBucketsInput{})
		return err
	}
	if err := gateway.Await(tb.Context(), ready); err != nil {
		tb.Fatal(err)
	}
	if _, err := objects.CreateBucket(tb.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		tb.Fatal(err)
	}
	return a
}

func makeTables(tb testing.TB, server *servers.Server, driver, address string, dialect sqlfence.Dialect) {
	tb.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if server != nil {
		if err := server.Await(tb.Context(), db.PingContext); err != nil {
			tb.Fatal(err)
		}
	}
	serial := map[sqlfence.Dialect]string{
		sqlfence.PostgreSQL: "bigserial PRIMARY KEY",
		sqlfence.MySQL:      "BIGINT AUTO_INCREMENT PRIMARY KEY",
		sqlfence.SQLite:     "INTEGER PRIMARY KEY AUTOINCREMENT",
	}[dialect]
	for _, statement := range []string{
		sqlfence.Schema(dialect),
		"CREATE TABLE list (n " + serial + ", adapter VARCHAR(100), value VARCHAR(100))",
		"CREATE TABLE state (id INTEGER PRIMARY KEY, value VARCHAR(100), fence_token BIGINT)",
		"INSERT INTO state (id) VALUES (1)",
		"INSERT INTO state (id) VALUES (2)",
	} {
		if _, err := db.ExecContext(tb.Context(), statement); err != nil {
			tb.Fatalf("%s: %v", statement, err)
		}
	}
}

// startHTTP starts a service that keeps lists in memory: /fenced behind the middleware, /plain without.
func startHTTP(tb testing.TB) string {
	tb.Helper()
	fenced, err := lists.Memory().FencedHandler(&fence.Gate{})
	if err != nil {
		tb.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/fenced", fenced)
	mux.Handle("/plain", unfenced().Handler())
	server := httptest.NewServer(mux)
	tb.Cleanup(server.Close)
	return server.URL
}

// unfenced is a service that keeps nothing and checks nothing.
func unfenced() *lists.Lists {
	return &lists.Lists{
		Add:    func(context.Context, string) error { return nil },
		Values: func(string) []string { return nil },
	}
}

// startGRPC starts two servers, behind the interceptors and without them, and returns their addresses, with a comma.
func startGRPC(tb testing.TB) string {
	tb.Helper()
	fenced, err := lists.Memory().FencedServer(&fence.Gate{})
	if err != nil {
		tb.Fatal(err)
	}
	addrs := ""
	for _, server := range []*grpc.Server{fenced, unfenced().Server()} {
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		tb.Cleanup(func() {
			server.Stop()
			if err := <-served; err != nil {
				tb.Error(err)
			}
		})
		if addrs != "" {
			addrs += ","
		}
		addrs += listener.Addr().String()
	}
	return addrs
}

// rows collects the values that an adapter wrote to a table.
func rows(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var values []string
	for found.Next() {
		var value sql.NullString
		if err := found.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value.String)
	}
	return values, found.Err()
}

// inTx runs write in a transaction.
func inTx(ctx context.Context, db *sql.DB, write func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := write(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// inPgxTx runs write in a transaction of pgx.
func inPgxTx(ctx context.Context, conn *pgx.Conn, write func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, conn, write)
}
