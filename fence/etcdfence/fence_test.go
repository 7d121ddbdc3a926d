// SPDX-License-Identifier: Apache-2.0

package etcdfence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/etcdfence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/internal/servers/etcdserver"
)

func TestMain(m *testing.M) {
	servers.Main(map[string]servers.Role{etcdserver.Role: etcdserver.Serve})
	os.Exit(m.Run())
}

func newFence(t *testing.T, kv clientv3.KV, config etcdfence.Config) *etcdfence.Fence {
	t.Helper()
	f, err := etcdfence.New(kv, config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// listKey is the key of the n-th value of a resource; the NUL keeps one resource out of another's range.
func listKey(resource string, n int64) string { return fmt.Sprintf("list/%s\x00%d", resource, n) }

func TestFence_Conformance(t *testing.T) {
	server, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	var serial atomic.Int64
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return fencetest.Subject{
			Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
				_, err := f.Txn(ctx, resource, token).Then(clientv3.OpPut(listKey(resource, serial.Add(1)), value)).Commit()
				return err
			},
			Values: func(ctx context.Context, resource string) ([]string, error) {
				prefix := fmt.Sprintf("list/%s\x00", resource)
				got, err := client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
				if err != nil {
					return nil, err
				}
				var values []string
				for _, kv := range got.Kvs {
					values = append(values, string(kv.Value))
				}
				return values, nil
			},
			Restart: func(ctx context.Context) error { return server.Restart(ctx, etcdserver.Ready(client)) },
		}
	}, fencetest.Options{})
}

func TestTxn_AnswersAsTheCallersOwnTransaction(t *testing.T) {
	_, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	absent := clientv3.Compare(clientv3.CreateRevision("k"), "=", 0)
	for i, wantSucceeded := range []bool{true, false} {
		got, err := f.Txn(t.Context(), "r", 5).If(absent).
			Then(clientv3.OpPut("k", "v"), clientv3.OpGet("k")).Else(clientv3.OpGet("k")).Commit()
		if err != nil {
			t.Fatal(err)
		}
		if got.Succeeded != wantSucceeded || got.Header.GetRevision() == 0 {
			t.Fatalf("commit %d: succeeded %v at revision %d, want %v at a revision", i, got.Succeeded, got.Header.GetRevision(), wantSucceeded)
		}
		last := got.Responses[len(got.Responses)-1].GetResponseRange()
		if last == nil || len(last.Kvs) != 1 || string(last.Kvs[0].Value) != "v" {
			t.Fatalf("commit %d: the last response is %v, want the key", i, got.Responses)
		}
	}
}

func TestTxn_RaisesTheMarkAlthoughTheCallersConditionFails(t *testing.T) {
	_, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	never := clientv3.Compare(clientv3.CreateRevision("k"), ">", 0)
	if got, err := f.Txn(t.Context(), "r", 9).If(never).Then(clientv3.OpPut("k", "v")).Commit(); err != nil || got.Succeeded {
		t.Fatalf("got %v, %v, want a transaction whose condition failed", got, err)
	}
	if err := f.Raise(t.Context(), "r", 8); !errors.Is(err, leasehold.ErrStaleToken) {
		t.Fatalf("a lower token after it: got %v, want leasehold.ErrStaleToken", err)
	}
}

func TestTxn_EqualTokenDoesNotWriteTheMarkAgain(t *testing.T) {
	_, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	for range 3 {
		if err := f.Raise(t.Context(), "r", 5); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.Get(t.Context(), f.Key("r"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) != 1 || got.Kvs[0].Version != 1 {
		t.Fatalf("the mark is %v, want one that was written once", got.Kvs)
	}
}

func TestTxn_CorruptMarkIsNotARefusal(t *testing.T) {
	_, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	for _, corrupt := range []string{"zzz", "9", "99999999999999999999", "0x000000000000000005"} {
		if _, err := client.Put(t.Context(), f.Key("r"), corrupt); err != nil {
			t.Fatal(err)
		}
		err := f.Raise(t.Context(), "r", 5)
		if !errors.Is(err, etcdfence.ErrCorruptMark) || errors.Is(err, leasehold.ErrStaleToken) {
			t.Errorf("mark %q: got %v, want etcdfence.ErrCorruptMark", corrupt, err)
		}
	}
}

func TestTxn_NothingIsSentWithoutAGrant(t *testing.T) {
	_, client := etcdserver.Start(t)
	f := newFence(t, client, etcdfence.Config{})
	_, err := f.GrantTxn(t.Context(), "r").Then(clientv3.OpPut("k", "v")).Commit()
	if !errors.Is(err, fence.ErrNoGrant) {
		t.Fatalf("got %v, want fence.ErrNoGrant", err)
	}
}

func TestTxn_IsCommittedOnce(t *testing.T) {
	_, client := etcdserver.Start(t)
	txn := newFence(t, client, etcdfence.Config{}).Txn(t.Context(), "r", 5).Then(clientv3.OpPut("k", "v"))
	if _, err := txn.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := txn.Commit(); err == nil {
		t.Fatal("committed twice")
	}
}
