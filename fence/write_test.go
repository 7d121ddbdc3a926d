// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/leaseholdtest"
)

func TestTokenFrom_GivesTheTokenOfAValidGrantOnly(t *testing.T) {
	if _, err := fence.TokenFrom(t.Context()); !errors.Is(err, fence.ErrNoGrant) {
		t.Fatalf("without a grant: got %v, want fence.ErrNoGrant", err)
	}
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	for _, test := range []struct {
		name string
		end  func(context.Context, *leasehold.Session, *leasehold.Grant) error
		want error
	}{
		{"released", func(ctx context.Context, _ *leasehold.Session, g *leasehold.Grant) error { return g.Release(ctx) }, leasehold.ErrReleased},
		{"abandoned", func(_ context.Context, s *leasehold.Session, _ *leasehold.Grant) error { s.Abandon(); return nil }, leasehold.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			session, err := leasehold.NewSession(t.Context(), cluster.DirectClient(t), leasehold.Config{})
			if err != nil {
				t.Fatal(err)
			}
			grant, err := session.Lock(t.Context(), test.name)
			if err != nil {
				t.Fatal(err)
			}
			ctx := leasehold.NewContext(t.Context(), grant)
			if token, err := fence.TokenFrom(ctx); err != nil || token != grant.Token() {
				t.Fatalf("got %v, %v, want %v", token, err, grant.Token())
			}
			if err := test.end(t.Context(), session, grant); err != nil {
				t.Fatal(err)
			}
			if token, err := fence.TokenFrom(ctx); !errors.Is(err, test.want) || token != 0 {
				t.Fatalf("got %v, %v, want %v", token, err, test.want)
			}
		})
	}
}
