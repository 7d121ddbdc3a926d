// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/grpcfence"
	"example.com/leasehold/fence/internal/lists"
)

// callers make one call with the token that is in ctx, unary and as a stream.
func callers(conn *grpc.ClientConn) map[string]func(context.Context, lists.Message) error {
	return map[string]func(context.Context, lists.Message) error{"unary": unary(conn), "stream": stream(conn)}
}

func TestServer_RefusesMetadataThatIsNotOneToken(t *testing.T) {
	l := lists.Memory()
	conn := dial(t, serve(t, &fence.Gate{}, l))
	for what, test := range map[string]struct {
		values []string
		code   codes.Code
	}{
		"none":                  {nil, codes.FailedPrecondition},
		"empty":                 {[]string{""}, codes.InvalidArgument},
		"duplicates":            {[]string{"7", "8"}, codes.InvalidArgument},
		"duplicates that agree": {[]string{"7", "7"}, codes.InvalidArgument},
		"a list":                {[]string{"7,8"}, codes.InvalidArgument},
		"zero":                  {[]string{"0"}, codes.InvalidArgument},
		"a negative number":     {[]string{"-7"}, codes.InvalidArgument},
		"a sign":                {[]string{"+7"}, codes.InvalidArgument},
		"leading zeros":         {[]string{"007"}, codes.InvalidArgument},
		"2^63":                  {[]string{"9223372036854775808"}, codes.InvalidArgument},
		"a kilobyte":            {[]string{strings.Repeat("9", 1<<10)}, codes.InvalidArgument},
	} {
		for how, call := range callers(conn) {
			t.Run(what+"/"+how, func(t *testing.T) {
				ctx := metadata.NewOutgoingContext(t.Context(), metadata.MD{grpcfence.Key: test.values})
				err := call(ctx, lists.Message{Resource: []byte("r"), Value: "v"})
				if status.Code(err) != test.code {
					t.Errorf("got %v, want code %v", err, test.code)
				}
				if !errors.Is(err, leasehold.ErrStaleToken) || !errors.Is(err, fence.ErrInvalidToken) {
					t.Errorf("%v does not match leasehold.ErrStaleToken and fence.ErrInvalidToken", err)
				}
				if err != nil && len(err.Error()) > 400 {
					t.Errorf("the refusal is %d bytes long", len(err.Error()))
				}
			})
		}
	}
	if got := l.Values("r"); len(got) != 0 {
		t.Errorf("%q were written", got)
	}
}

func TestServer_RefusalHasDetails(t *testing.T) {
	conn := dial(t, serve(t, &fence.Gate{}, lists.Memory()))
	for how, call := range callers(conn) {
		t.Run(how, func(t *testing.T) {
			r := lists.Message{Resource: []byte(t.Name()), Value: "v"}
			if err := call(grpcfence.WithToken(t.Context(), 9), r); err != nil {
				t.Fatal(err)
			}
			err := call(grpcfence.WithToken(t.Context(), 8), r)
			s := status.Convert(err)
			if s.Code() != codes.FailedPrecondition || len(s.Details()) != 1 {
				t.Fatalf("got %v with %v, want FailedPrecondition with one detail", err, s.Details())
			}
			info, ok := s.Details()[0].(*errdetails.ErrorInfo)
			if !ok || info.GetReason() != "STALE_TOKEN" || info.GetDomain() != grpcfence.Domain ||
				info.GetMetadata()["resource"] != t.Name() || info.GetMetadata()["token"] != "8" || info.GetMetadata()["highest"] != "9" {
				t.Errorf("the detail is %v", s.Details()[0])
			}
		})
	}
}

// An old holder's stream that is open and idle must not hold up its successor, and its next message is refused.
func TestStream_IdleStreamOfAnOldHolderHoldsNobodyUp(t *testing.T) {
	l := lists.Memory()
	conn := dial(t, serve(t, &fence.Gate{}, l))
	old, err := conn.NewStream(grpcfence.WithToken(t.Context(), 5), lists.AddAllDesc, lists.MethodAddAll)
	if err != nil {
		t.Fatal(err)
	}
	send := func(value string) error {
		if err := old.SendMsg(lists.Encode(lists.Message{Resource: []byte("r"), Value: value})); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		return grpcfence.ErrorFrom(old.RecvMsg(new(wrapperspb.BoolValue)))
	}
	if err := send("old"); err != nil {
		t.Fatal(err)
	}
	if err := unary(conn)(grpcfence.WithToken(t.Context(), 6), lists.Message{Resource: []byte("r"), Value: "new"}); err != nil {
		t.Fatal(err)
	}
	var stale *leasehold.StaleTokenError
	if err := send("late"); !errors.As(err, &stale) || stale.Highest != 6 {
		t.Fatalf("the old stream's next message: got %v, want a refusal by 6", err)
	}
	if got := l.Values("r"); !slices.Equal(got, []string{"old", "new"}) {
		t.Fatalf("written: %q", got)
	}
}

// What a handler does after the last message is checked, too.
func TestStream_EndOfAnOldStreamIsChecked(t *testing.T) {
	l := lists.Memory()
	conn := dial(t, serve(t, &fence.Gate{}, l))
	for _, overtaken := range []bool{false, true} {
		resource := []byte(t.Name())
		if overtaken {
			resource = append(resource, '2')
		}
		s, err := conn.NewStream(grpcfence.WithToken(t.Context(), 5), lists.AddAllDesc, lists.MethodAddAll)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.SendMsg(lists.Encode(lists.Message{Resource: resource, Value: "v"})), s.RecvMsg(new(wrapperspb.BoolValue))); err != nil {
			t.Fatal(err)
		}
		if overtaken {
			if err := unary(conn)(grpcfence.WithToken(t.Context(), 6), lists.Message{Resource: resource, Value: "new"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		err = grpcfence.ErrorFrom(s.RecvMsg(new(wrapperspb.BoolValue)))
		if overtaken != errors.Is(err, leasehold.ErrStaleToken) || !overtaken && !errors.Is(err, io.EOF) {
			t.Errorf("overtaken %v: the stream ended with %v", overtaken, err)
		}
	}
}

func TestServerInterceptors_WantAGuardAndAResource(t *testing.T) {
	resource := func(context.Context, string, any) (string, error) { return "r", nil }
	for _, config := range []grpcfence.ServerConfig{{}, {Guard: &fence.Gate{}}, {Resource: resource}} {
		if _, err := grpcfence.UnaryServerInterceptor(config); err == nil {
			t.Error("unary: a config that lacks something was accepted")
		}
		if _, err := grpcfence.StreamServerInterceptor(config); err == nil {
			t.Error("stream: a config that lacks something was accepted")
		}
	}
}

func TestErrorFrom_LeavesOtherErrorsAlone(t *testing.T) {
	detailed, err := status.New(codes.FailedPrecondition, "x").WithDetails(&errdetails.ErrorInfo{Reason: grpcfence.ReasonStaleToken, Domain: "example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{nil, io.EOF, status.Error(codes.FailedPrecondition, "x"), detailed.Err()} {
		if got := grpcfence.ErrorFrom(err); got != err { // the very error
			t.Errorf("ErrorFrom(%v) = %v", err, got)
		}
	}
}
