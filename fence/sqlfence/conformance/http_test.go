// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/sqlfence"
)

// A service that keeps its lists in a database, behind the middleware, in the transaction that checked the token.
func (db *database) handler(f *sqlfence.Fence) (http.Handler, error) {
	middleware, err := httpfence.Middleware(httpfence.Config{
		Guard:    f.Guard(db.DB, nil),
		Resource: func(r *http.Request) (string, error) { return r.URL.Query().Get("resource"), nil },
	})
	if err != nil {
		return nil, err
	}
	return middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			values, err := db.values(r.Context(), r.URL.Query().Get("resource"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			_ = json.NewEncoder(w).Encode(values)
			return
		}
		value, err := io.ReadAll(r.Body)
		if err == nil {
			err = db.append(r.Context(), string(value))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if strings.HasPrefix(string(value), "undo") {
			http.Error(w, "the handler changed its mind", http.StatusTeapot)
		}
	})), nil
}

func (db *database) append(ctx context.Context, value string) error {
	w, okWrite := fence.WriteFrom(ctx)
	tx, okTx := sqlfence.TxFrom(ctx)
	if !okWrite || !okTx {
		return errors.New("no admission in the context")
	}
	_, err := tx.ExecContext(ctx, db.query("INSERT INTO list (resource, value) VALUES (?, ?)"), w.Resource, value)
	return err
}

// httpSubject is a client of the handler at base.
func httpSubject(base string, restart func(context.Context) error) fencetest.Subject {
	call := func(ctx context.Context, method, resource string, token leasehold.Token, body string, out any) error {
		target := base + "/?" + url.Values{"resource": {resource}}.Encode()
		request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
		if err != nil {
			return err
		}
		if method != http.MethodGet {
			httpfence.SetToken(request.Header, token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := httpfence.CheckResponse(response); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		if out == nil {
			_, err = io.Copy(io.Discard, response.Body)
			return err
		}
		return json.NewDecoder(response.Body).Decode(out)
	}
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return call(ctx, http.MethodPost, resource, token, value, nil)
		},
		Values: func(ctx context.Context, resource string) ([]string, error) {
			var values []string
			return values, call(ctx, http.MethodGet, resource, 0, "", &values)
		},
		Restart: restart,
	}
}

// The database is killed under the service.
func testBehindHTTP(t *testing.T, db *database) {
	handler, err := db.handler(newFence(t, db))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	subject := httpSubject(server.URL, db.restart)
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject }, fencetest.Options{Writes: 500})

	t.Run("HandlerThatFailsChangesNothing", func(t *testing.T) {
		if err := subject.Write(t.Context(), t.Name(), 9, "undo"); err == nil {
			t.Fatal("the handler's error was lost")
		}
		// Neither the value nor the mark: a lower token passes.
		if err := subject.Write(t.Context(), t.Name(), 5, "kept"); err != nil {
			t.Fatal(err)
		}
		values, err := subject.Values(t.Context(), t.Name())
		if err != nil || len(values) != 1 || values[0] != "kept" {
			t.Fatalf("got %q, %v, want the second value only", values, err)
		}
	})
}

const sqliteRole = "HTTP server with SQLite"

// serveSQLite is a service with a SQLite database in its process, which is killed with it.
func serveSQLite(addr, dir string) error {
	inner, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "data.db")+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	db := &database{DB: inner, dialect: sqlfence.SQLite}
	f, err := sqlfence.New(db.dialect, sqlfence.Config{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.CreateTable(ctx, inner); err != nil {
		return err
	}
	if _, err := inner.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS list (n INTEGER PRIMARY KEY AUTOINCREMENT, resource TEXT, value TEXT)"); err != nil {
		return err
	}
	handler, err := db.handler(f)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

func TestSQLite_ConformanceWithAKilledProcess(t *testing.T) {
	server := servers.Self(t, sqliteRole)
	defer http.DefaultClient.CloseIdleConnections()
	restart := func(ctx context.Context) error {
		return server.Restart(ctx, func(context.Context) error { return nil })
	}
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return httpSubject("http://"+server.Addr, restart) }, fencetest.Options{})
}
