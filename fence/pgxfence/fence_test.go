// SPDX-License-Identifier: Apache-2.0

package pgxfence_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/pgxfence"
	"example.com/leasehold/fence/sqlfence"
)

func TestFence_Conformance(t *testing.T) {
	server := servers.Postgres(t)
	pool, err := pgxpool.New(t.Context(), servers.PostgresURL(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if err := server.Await(t.Context(), pool.Ping); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		sqlfence.Schema(sqlfence.PostgreSQL),
		"CREATE TABLE list (n bigserial PRIMARY KEY, resource text, value text)",
	} {
		if _, err := pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	f, err := pgxfence.New(pgxfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			options := fencetest.Options{}
			if level != pgx.ReadCommitted {
				options.Writes = 1_000 // the long run is made once
			}
			s := subject(pool, f, level)
			s.Restart = func(ctx context.Context) error { return server.Restart(ctx, pool.Ping) }
			fencetest.Run(t, func(*testing.T) fencetest.Subject { return s }, options)
		})
	}
}

func subject(pool *pgxpool.Pool, f *pgxfence.Fence, level pgx.TxIsoLevel) fencetest.Subject {
	write := func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
		err := pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
			if err := f.CheckToken(ctx, tx, resource, token); err != nil {
				return err
			}
			pause()
			_, err := tx.Exec(ctx, "INSERT INTO list (resource, value) VALUES ($1, $2)", resource, value)
			return err
		})
		if sqlfence.Retryable(err) {
			return errors.Join(fence.ErrConflict, err) // of the commit
		}
		return err
	}
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return write(ctx, resource, token, value, func() {})
		},
		WritePaused: write,
		Values: func(ctx context.Context, resource string) ([]string, error) {
			rows, err := pool.Query(ctx, "SELECT value FROM list WHERE resource = $1 ORDER BY n", resource)
			if err != nil {
				return nil, err
			}
			return pgx.CollectRows(rows, pgx.RowTo[string])
		},
	}
}
