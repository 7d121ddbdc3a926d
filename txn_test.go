// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

func TestTxn_RunsOnlyWhileTheGrantExistsAndTellsWhy(t *testing.T) {
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	client := cluster.DirectClient(t)
	session, err := leasehold.NewSession(t.Context(), client, leasehold.Config{TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(t.Context())
	put := func(g *leasehold.Grant, want string) (*clientv3.TxnResponse, error) {
		return g.Txn(t.Context()).
			If(clientv3.Compare(clientv3.Value("x"), "=", want)).
			Then(clientv3.OpPut("x", "then"), clientv3.OpGet("x")).
			Else(clientv3.OpPut("x", "else")).
			Commit()
	}
	value := func() string {
		r, err := client.Get(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Kvs) == 0 {
			return ""
		}
		return string(r.Kvs[0].Value)
	}

	g, err := session.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	// The caller's own comparison fails: its Else runs, and it is no error.
	resp, err := put(g, "nothing")
	if err != nil || resp.Succeeded || len(resp.Responses) != 1 || value() != "else" {
		t.Fatalf("own comparison failed: %v, error %v, value %q", resp, err, value())
	}
	// It holds: Then runs, and the responses are the caller's.
	resp, err = put(g, "else")
	if err != nil || !resp.Succeeded || len(resp.Responses) != 2 || value() != "then" {
		t.Fatalf("own comparison held: %v, error %v, value %q", resp, err, value())
	}
	if got := string(resp.Responses[1].GetResponseRange().Kvs[0].Value); got != "then" {
		t.Fatalf("the caller's second response is %q", got)
	}

	// Released: nothing is sent.
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := put(g, "then"); !errors.Is(err, leasehold.ErrReleased) || value() != "then" {
		t.Fatalf("after release: error %v, value %q", err, value())
	}

	// Taken by an operator without the holder's knowledge: etcd refuses, neither branch runs.
	g, err = session.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Delete(t.Context(), g.Key()); err != nil {
		t.Fatal(err)
	}
	if _, err := put(g, "nothing"); !errors.Is(err, leasehold.ErrRevoked) || value() != "then" {
		t.Fatalf("after the key was deleted: error %v, value %q", err, value())
	}
	if g.Valid() {
		t.Fatal("the grant is still believed in after etcd said that it is gone")
	}
}

func TestTxn_CallsOutOfOrderAreErrorsAndSendNothing(t *testing.T) {
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	client := cluster.DirectClient(t)
	session, err := leasehold.NewSession(t.Context(), client, leasehold.Config{TTL: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(t.Context())
	g, err := session.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	op := clientv3.OpPut("x", "y")
	for name, txn := range map[string]clientv3.Txn{
		"Then twice":      g.Txn(t.Context()).Then(op).Then(op),
		"If after Then":   g.Txn(t.Context()).Then(op).If(g.Cmp()),
		"Then after Else": g.Txn(t.Context()).Else(op).Then(op),
	} {
		if _, err := txn.Commit(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if r, err := client.Get(t.Context(), "x"); err != nil || len(r.Kvs) > 0 {
		t.Errorf("something was sent: %v, error %v", r, err)
	}
}
