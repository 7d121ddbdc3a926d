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
	"example.com/leasehold/fence/internal/lists"
	"example.com/leasehold/fence/internal/servers/etcdserver"
)

// fencedConn is a connection with the client interceptors.
func fencedConn(t *testing.T, addr string, config grpcfence.ClientConfig) *grpc.ClientConn {
	t.Helper()
	return dial(t, addr,
		grpc.WithUnaryInterceptor(grpcfence.UnaryClientInterceptor(config)),
		grpc.WithStreamInterceptor(grpcfence.StreamClientInterceptor(config)))
}

func TestClient_SendsTheTokenOfAValidGrantOnly(t *testing.T) {
	l := lists.Memory()
	conn := fencedConn(t, serve(t, &fence.Gate{}, l), grpcfence.ClientConfig{})
	_, etcd := etcdserver.Start(t) // in a process of its own: etcd sets gRPC's global logger, which is in use here
	session, err := leasehold.NewSession(t.Context(), etcd, leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := session.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	ctx := leasehold.NewContext(t.Context(), grant)
	for how, call := range callers(conn) {
		if err := call(ctx, lists.Message{Resource: []byte("r"), Value: how}); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if err := call(grpcfence.WithToken(ctx, 7), lists.Message{Resource: []byte("r"), Value: how}); err == nil {
			t.Errorf("%s: a call with a token of its own was sent", how)
		}
	}
	open, err := conn.NewStream(ctx, lists.AddAllDesc, lists.MethodAddAll)
	if err != nil {
		t.Fatal(err)
	}
	if err := grant.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := open.SendMsg(lists.Encode(lists.Message{Resource: []byte("r"), Value: "late"})); !errors.Is(err, leasehold.ErrReleased) {
		t.Errorf("on an open stream after the release: got %v, want leasehold.ErrReleased", err)
	}
	for how, call := range callers(conn) {
		if err := call(ctx, lists.Message{Resource: []byte("r"), Value: "late"}); !errors.Is(err, leasehold.ErrReleased) {
			t.Errorf("%s after the release: got %v, want leasehold.ErrReleased", how, err)
		}
	}
	got := l.Values("r")
	slices.Sort(got)
	if !slices.Equal(got, []string{"stream", "unary"}) {
		t.Errorf("written: %q", got)
	}
}

func TestClient_WithoutAGrant(t *testing.T) {
	addr := serve(t, &fence.Gate{}, lists.Memory())
	for how, call := range callers(fencedConn(t, addr, grpcfence.ClientConfig{})) {
		if err := call(t.Context(), lists.Message{Resource: []byte("r")}); !errors.Is(err, fence.ErrNoGrant) {
			t.Errorf("%s: got %v, want fence.ErrNoGrant", how, err)
		}
	}
	optional := fencedConn(t, addr, grpcfence.ClientConfig{Optional: true})
	for how, call := range callers(optional) {
		if err := call(t.Context(), lists.Message{Resource: []byte("r")}); !errors.Is(err, grpcfence.ErrMissingToken) {
			t.Errorf("%s without a token that the server wants: got %v, want ErrMissingToken", how, err)
		}
	}
	if err := optional.Invoke(t.Context(), lists.MethodValues, lists.Encode(lists.Message{Resource: []byte("r")}), new(wrapperspb.StringValue)); err != nil {
		t.Errorf("a method that reads: %v", err)
	}
}
