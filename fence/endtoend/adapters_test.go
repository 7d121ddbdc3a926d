// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	_ "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	_ "modernc.org/sqlite"

	"example.com/leasehold"
	"example.com/leasehold/fence/etcdfence"
	"example.com/leasehold/fence/objectfence"
	"example.com/leasehold/fence/objectfence/s3store"
	"example.com/leasehold/fence/pgxfence"
	"example.com/leasehold/fence/redisfence"
	"example.com/leasehold/fence/sqlfence"
)

// resource is what every adapter writes to.
const resource = "job"

// adapter writes to one resource: a list of values, or one value that is replaced.
type adapter struct {
	name string
	// late writes with the token of a grant whatever has become of it since, as a holder does that was stopped
	// between its check and its write.
	late func(ctx context.Context, grant *leasehold.Grant, value string) error
	// granted writes with the grant in ctx, as the package is meant to be used.
	granted func(ctx context.Context, value string) error
	// plain makes the same write without a fence.
	plain func(ctx context.Context, value string) error
	// last returns the last value that was written through the fence.
	last func(ctx context.Context) (string, error)
}

// errNotRun stands for the refusal of a transaction that compares the key of the grant itself.
var errNotRun = errors.New("the grant's key was gone: not run")

// resources are the connections of one process.
type resources struct {
	etcd     *clientv3.Client
	adapters []adapter
	closers  []func() error
}

func (r *resources) close() error {
	var problems []error
	for _, c := range r.closers {
		problems = append(problems, c())
	}
	return errors.Join(problems...)
}

// connect makes every adapter.
func connect(ctx context.Context, a addresses) (*resources, error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{a.Etcd}})
	if err != nil {
		return nil, err
	}
	r := &resources{etcd: etcd, closers: []func() error{etcd.Close}}
	for _, add := range []func(context.Context, addresses) error{r.addEtcd, r.addSQL, r.addPgx, r.addRedis, r.addS3, r.addHTTP, r.addGRPC} {
		if err := add(ctx, a); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (r *resources) addEtcd(_ context.Context, _ addresses) error {
	fences, err := etcdfence.New(r.etcd, etcdfence.Config{})
	if err != nil {
		return err
	}
	last := func(key string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			got, err := r.etcd.Get(ctx, key)
			if err != nil || len(got.Kvs) == 0 {
				return "", err
			}
			return string(got.Kvs[0].Value), nil
		}
	}
	plain := func(ctx context.Context, value string) error {
		_, err := r.etcd.Put(ctx, "plain", value)
		return err
	}
	r.adapters = append(r.adapters, adapter{
		name: "etcd, Grant.Txn",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			got, err := r.etcd.Txn(ctx).If(grant.Cmp()).Then(clientv3.OpPut("by grant", value)).Commit()
			if err == nil && !got.Succeeded {
				err = errNotRun
			}
			return err
		},
		granted: func(ctx context.Context, value string) error {
			grant, _ := leasehold.FromContext(ctx)
			_, err := grant.Txn(ctx).Then(clientv3.OpPut("by grant", value)).Commit()
			return err
		},
		plain: plain, last: last("by grant"),
	}, adapter{
		name: "etcd, etcdfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			_, err := fences.Txn(ctx, resource, grant.Token()).Then(clientv3.OpPut("by token", value)).Commit()
			return err
		},
		granted: func(ctx context.Context, value string) error {
			_, err := fences.GrantTxn(ctx, resource).Then(clientv3.OpPut("by token", value)).Commit()
			return err
		},
		plain: plain, last: last("by token"),
	})
	return nil
}

func (r *resources) addSQL(_ context.Context, a addresses) error {
	for _, d := range []struct {
		name, driver, address string
		dialect               sqlfence.Dialect
	}{
		{"PostgreSQL", "pgx", a.Postgres, sqlfence.PostgreSQL},
		{"MariaDB", "mysql", a.MariaDB, sqlfence.MySQL},
		{"SQLite", "sqlite", a.SQLite, sqlfence.SQLite},
	} {
		db, err := sql.Open(d.driver, d.address)
		if err != nil {
			return err
		}
		r.closers = append(r.closers, db.Close)
		if err := r.addDatabase(db, d.name, d.dialect); err != nil {
			return err
		}
	}
	return nil
}

// placeholders are those of a statement with two parameters.
func placeholders(d sqlfence.Dialect) (first, second string) {
	if d == sqlfence.PostgreSQL {
		return "$1", "$2"
	}
	return "?", "?"
}

func (r *resources) addDatabase(db *sql.DB, name string, dialect sqlfence.Dialect) error {
	fences, err := sqlfence.New(dialect, sqlfence.Config{})
	if err != nil {
		return err
	}
	rowFences, err := sqlfence.NewRow(dialect, sqlfence.RowConfig{Table: "state", KeyColumn: "id", TokenColumn: "fence_token"})
	if err != nil {
		return err
	}
	first, second := placeholders(dialect)
	insert := "INSERT INTO list (adapter, value) VALUES (" + first + ", " + second + ")"
	// check, if not nil, is the fence.
	write := func(ctx context.Context, adapter, value string, check func(tx *sql.Tx) error) error {
		return inTx(ctx, db, func(tx *sql.Tx) error {
			if check != nil {
				if err := check(tx); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, insert, adapter, value)
			return err
		})
	}
	update := func(ctx context.Context, token leasehold.Token, value string) error {
		return inTx(ctx, db, func(tx *sql.Tx) error { return rowFences.Update(ctx, tx, 1, token, "value = "+first, value) })
	}
	r.adapters = append(r.adapters, adapter{
		name: name + ", sqlfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			return write(ctx, "fenced", value, func(tx *sql.Tx) error { return fences.CheckToken(ctx, tx, resource, grant.Token()) })
		},
		granted: func(ctx context.Context, value string) error {
			return write(ctx, "fenced", value, func(tx *sql.Tx) error { return fences.Check(ctx, tx, resource) })
		},
		plain: func(ctx context.Context, value string) error { return write(ctx, "plain", value, nil) },
		last: func(ctx context.Context) (string, error) {
			return one(rows(ctx, db, "SELECT value FROM list WHERE adapter = "+first+" ORDER BY n DESC LIMIT 1", "fenced"))
		},
	}, adapter{
		name: name + ", token in the row",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			return update(ctx, grant.Token(), value)
		},
		granted: func(ctx context.Context, value string) error {
			grant, _ := leasehold.FromContext(ctx)
			if err := grant.Err(); err != nil {
				return err
			}
			return update(ctx, grant.Token(), value)
		},
		plain: func(ctx context.Context, value string) error {
			return inTx(ctx, db, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE state SET value = "+first+" WHERE id = "+second, value, 2)
				return err
			})
		},
		last: func(ctx context.Context) (string, error) {
			return one(rows(ctx, db, "SELECT value FROM state WHERE id = 1"))
		},
	})
	return nil
}

func one(values []string, err error) (string, error) {
	if err != nil || len(values) == 0 {
		return "", err
	}
	return values[0], nil
}

func (r *resources) addPgx(ctx context.Context, a addresses) error {
	conn, err := pgx.Connect(ctx, a.Postgres)
	if err != nil {
		return err
	}
	r.closers = append(r.closers, func() error { return conn.Close(context.Background()) })
	fences, err := pgxfence.New(pgxfence.Config{})
	if err != nil {
		return err
	}
	write := func(ctx context.Context, adapter, value string, check func(tx pgx.Tx) error) error {
		return inPgxTx(ctx, conn, func(tx pgx.Tx) error {
			if check != nil {
				if err := check(tx); err != nil {
					return err
				}
			}
			_, err := tx.Exec(ctx, "INSERT INTO list (adapter, value) VALUES ($1, $2)", adapter, value)
			return err
		})
	}
	const own = resource + " of pgx"
	r.adapters = append(r.adapters, adapter{
		name: "PostgreSQL, pgxfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			return write(ctx, "pgx", value, func(tx pgx.Tx) error { return fences.CheckToken(ctx, tx, own, grant.Token()) })
		},
		granted: func(ctx context.Context, value string) error {
			return write(ctx, "pgx", value, func(tx pgx.Tx) error { return fences.Check(ctx, tx, own) })
		},
		plain: func(ctx context.Context, value string) error { return write(ctx, "plain", value, nil) },
		last: func(ctx context.Context) (string, error) {
			var value string
			err := conn.QueryRow(ctx, "SELECT value FROM list WHERE adapter = 'pgx' ORDER BY n DESC LIMIT 1").Scan(&value)
			return value, err
		},
	})
	return nil
}

func (r *resources) addRedis(_ context.Context, a addresses) error {
	client := redis.NewClient(&redis.Options{Addr: a.Redis, MaxRetries: -1})
	r.closers = append(r.closers, client.Close)
	fences, err := redisfence.New(client, redisfence.Config{})
	if err != nil {
		return err
	}
	key := fences.DataKey(resource, "state")
	set := func(value string) redisfence.Command {
		return redisfence.Command{"SET", redisfence.Key(key), value}
	}
	r.adapters = append(r.adapters, adapter{
		name: "Redis, redisfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			_, err := fences.Do(ctx, resource, grant.Token(), set(value))
			return err
		},
		granted: func(ctx context.Context, value string) error {
			_, err := fences.DoGrant(ctx, resource, set(value))
			return err
		},
		plain: func(ctx context.Context, value string) error { return client.Set(ctx, "plain", value, 0).Err() },
		last:  func(ctx context.Context) (string, error) { return client.Get(ctx, key).Result() },
	})
	return nil
}

func s3Client(addr string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + addr), Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider("access", "secret", ""),
	})
}

func (r *resources) addS3(_ context.Context, a addresses) error {
	client := s3Client(a.S3)
	store, err := s3store.New(client, bucket)
	if err != nil {
		return err
	}
	fences, err := objectfence.New(store, objectfence.Config{})
	if err != nil {
		return err
	}
	var serial atomic.Int64
	r.adapters = append(r.adapters, adapter{
		name: "S3, objectfence",
		late: func(ctx context.Context, grant *leasehold.Grant, value string) error {
			return fences.Write(ctx, resource, grant.Token(), []byte(value))
		},
		granted: func(ctx context.Context, value string) error { return fences.WriteGrant(ctx, resource, []byte(value)) },
		plain: func(ctx context.Context, value string) error {
			// As long as a fenced one is.
			body := fmt.Sprintf("%0*d\n%s", len("leasehold token=000 nonce=")+26, serial.Add(1), value)
			_, err := client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String(bucket), Key: aws.String("plain"), Body: strings.NewReader(body)})
			return err
		},
		last: func(ctx context.Context) (string, error) {
			content, _, err := fences.Read(ctx, resource)
			return string(content), err
		},
	})
	return nil
}
