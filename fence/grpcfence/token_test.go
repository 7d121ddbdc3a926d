// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"example.com/leasehold"
	"example.com/leasehold/fence/grpcfence"
)

func FuzzTokenFromIncoming(f *testing.F) {
	for _, value := range []string{"1", "0", "-1", "+1", "007", "9223372036854775807", "9223372036854775808", "1, 2", "\x00", "٧", ""} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := grpcfence.TokenFromIncoming(metadata.NewIncomingContext(context.Background(), metadata.Pairs(grpcfence.Key, value)))
		if err != nil {
			if !errors.Is(err, grpcfence.ErrMalformedToken) || len(err.Error()) > 300 {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		if token <= 0 || token.String() != value {
			t.Fatalf("%q was read as %s", value, token)
		}
	})
}

// A client believes a refusal's details only as far as they can be read, and whatever they hold, it stays a refusal.
func FuzzErrorFrom_DetailsOfAnybody(f *testing.F) {
	f.Add(grpcfence.ReasonStaleToken, grpcfence.Domain, "r", "1", "2")
	f.Add(grpcfence.ReasonStaleToken, grpcfence.Domain, "r", "x", "-2")
	f.Add("OTHER", "elsewhere", "", "", "")
	f.Fuzz(func(t *testing.T, reason, domain, resource, token, highest string) {
		info := &errdetails.ErrorInfo{Reason: reason, Domain: domain, Metadata: map[string]string{"resource": resource, "token": token, "highest": highest}}
		s, err := status.New(codes.FailedPrecondition, "refused").WithDetails(info)
		if err != nil {
			return // not valid UTF-8: nothing that a server could have sent
		}
		got := grpcfence.ErrorFrom(s.Err())
		if status.Code(got) != codes.FailedPrecondition {
			t.Fatalf("the code became %v", status.Code(got))
		}
		stale, ok := errors.AsType[*leasehold.StaleTokenError](got)
		if ok && (stale.Token.String() != token || stale.Highest.String() != highest || stale.Resource != resource) {
			t.Errorf("%q, %q, %q was read as %+v", resource, token, highest, stale)
		}
		if want := reason == grpcfence.ReasonStaleToken && domain == grpcfence.Domain; want != errors.Is(got, leasehold.ErrStaleToken) {
			t.Errorf("reason %q of %q: %v", reason, domain, got)
		}
	})
}
