// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"errors"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/grpcfence"
	"example.com/leasehold/leaseholdtest"
)

// fencedConn is a connection with the client interceptors.
func fencedConn(t *testing.T, addr string, config grpcfence.ClientConfig) *grpc.ClientConn {
	t.Helper()
	return dial(t, addr,
		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor(config)),
		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor(config)))
}

func TestClient_SendsTheTokenOfAValidGrantOnly(t *testing.T) {
	l := memoryLists()
	conn := fencedConn(t, serve(t, &fence.Gate{}, l), grpcfence.ClientConfig{})
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	session, err := leasehold.NewSession(t.Context(), cluster.DirectClient(t), leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := session.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	ctx := leasehold.NewContext(t.Context(), grant)
	for how, call := range callers(conn) {
		if err := call(ctx, message{Resource: []byte("r"), Value: how}); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if err := call(grpcfence.WithToken(ctx, 7), message{Resource: []byte("r"), Value: how}); err == nil {
			t.Errorf("%s: a call with a token of its own was sent", how)
		}
	}
	open, err := conn.NewStream(ctx, addAllDesc, methodAddAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := grant.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := open.SendMsg(encode(message{Resource: []byte("r"), Value: "late"})); !errors.Is(err, leasehold.ErrReleased) {
		t.Errorf("on an open stream after the release: got %v, want leasehold.ErrReleased", err)
	}
	for how, call := range callers(conn) {
		if err := call(ctx, message{Resource: []byte("r"), Value: "late"}); !errors.Is(err, leasehold.ErrReleased) {
			t.Errorf("%s after the release: got %v, want leasehold.ErrReleased", how, err)
		}
	}
	got := l.values("r")
	slices.Sort(got)
	if !slices.Equal(got, []string{"stream", "unary"}) {
		t.Errorf("written: %q", got)
	}
}

func TestClient_WithoutAGrant(t *testing.T) {
	addr := serve(t, &fence.Gate{}, memoryLists())
	for how, call := range callers(fencedConn(t, addr, grpcfence.ClientConfig{})) {
		if err := call(t.Context(), message{Resource: []byte("r")}); !errors.Is(err, fence.ErrNoGrant) {
			t.Errorf("%s: got %v, want fence.ErrNoGrant", how, err)
		}
	}
	optional := fencedConn(t, addr, grpcfence.ClientConfig{Optional: true})
	for how, call := range callers(optional) {
		if err := call(t.Context(), message{Resource: []byte("r")}); !errors.Is(err, grpcfence.ErrMissingToken) {
			t.Errorf("%s without a token that the server wants: got %v, want ErrMissingToken", how, err)
		}
	}
	if err := optional.Invoke(t.Context(), methodValues, encode(message{Resource: []byte("r")}), new(wrapperspb.StringValue)); err != nil {
		t.Errorf("a method that reads: %v", err)
	}
}
