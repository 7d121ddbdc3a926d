// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"example.com/leasehold"
	"example.com/leasehold/internal/etcdfake"
)

// proclaims tells whether a call puts this value.
func proclaims(value string) func(etcdfake.Call) bool {
	return func(call etcdfake.Call) bool {
		txn, ok := call.Request.(*pb.TxnRequest)
		return ok && len(txn.Success) > 0 && string(txn.Success[0].GetRequestPut().GetValue()) == value
	}
}

func TestLeadership_ProclaimsOfUnknownOutcomeAreSettledByTheNext(t *testing.T) {
	for name, fault := range map[string]etcdfake.Hook{
		"the answer is lost":       etcdfake.LoseAnswer(),
		"the answer never comes":   etcdfake.KeepAnswer(),
		"the request is lost":      etcdfake.LoseRequest(),
		"the request comes late":   etcdfake.Delay(3 * time.Second),
		"the request comes twice":  etcdfake.Repeat(2),
		"the server has no quorum": etcdfake.Fail(rpctypes.ErrGRPCTimeout),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := etcdfake.NewForTest(t, etcdfake.Options{})
				s, err := leasehold.NewSession(t.Context(), c.Client(t), leasehold.Config{})
				if err != nil {
					t.Fatal(err)
				}
				l, err := s.Election("name").Campaign(t.Context(), "0")
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second) // it is under watch now
				value := func() string { return string(c.Keys("leasehold/name/")[0].Value) }

				// Bounded by a context that ends before the fault does.
				c.Hook(etcdfake.Once(proclaims("a"), fault))
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				if err := l.Proclaim(ctx, "a"); err != nil && !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Proclaim(a): %v", err)
				}
				if err := l.Proclaim(t.Context(), "b"); err != nil {
					t.Fatalf("Proclaim(b): %v", err)
				}
				if got := value(); got != "b" {
					t.Errorf("the value is %q, want b", got)
				}
				time.Sleep(10 * time.Second)
				if got := value(); got != "b" || !l.Valid() {
					t.Errorf("later the value is %q, want b; %v", got, l.Err())
				}

				// Without such a bound it goes on until it is known.
				c.Hook(etcdfake.Once(proclaims("c"), fault))
				if err := l.Proclaim(t.Context(), "c"); err != nil {
					t.Errorf("Proclaim(c): %v", err)
				}
				time.Sleep(10 * time.Second)
				if got := value(); got != "c" || !l.Valid() {
					t.Errorf("the value is %q, want c; %v", got, l.Err())
				}
				if err := l.Resign(t.Context()); err != nil {
					t.Error(err)
				}
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
