// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold/fence"
	"example.com/leasehold/fence/grpcfence"
)

// The service of the tests, without generated code: messages are JSON in a StringValue.
const (
	methodAdd    = "/lists.Lists/Add"
	methodValues = "/lists.Lists/Values"
	methodAddAll = "/lists.Lists/AddAll"
)

var addAllDesc = &grpc.StreamDesc{StreamName: "AddAll", ClientStreams: true, ServerStreams: true}

// message is a request of the service.
type message struct {
	Resource []byte // bytes, because JSON repairs a string that is not UTF-8
	Value    string
	Pause    string // names a function of pauses to call before the value is kept
}

func encode(m message) *wrapperspb.StringValue {
	text, _ := json.Marshal(m) // strings and bytes only
	return wrapperspb.String(string(text))
}

func decode(in *wrapperspb.StringValue) (message, error) {
	var m message
	return m, json.Unmarshal([]byte(in.GetValue()), &m)
}

// pauses are the functions that a handler in this process calls.
var pauses sync.Map

// lists is what the service keeps.
type lists struct {
	add    func(ctx context.Context, value string) error
	values func(resource string) []string
}

func (l *lists) addOne(ctx context.Context, in *wrapperspb.StringValue) (any, error) {
	m, err := decode(in)
	if err != nil {
		return nil, err
	}
	if pause, ok := pauses.Load(m.Pause); ok {
		pause.(func())()
	}
	return wrapperspb.Bool(true), l.add(ctx, m.Value)
}

func (l *lists) desc() *grpc.ServiceDesc {
	unary := func(full string, serve func(context.Context, *wrapperspb.StringValue) (any, error)) grpc.MethodHandler {
		return func(server any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := dec(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, request any) (any, error) {
				return serve(ctx, request.(*wrapperspb.StringValue))
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{Server: server, FullMethod: full}, handler)
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: "lists.Lists",
		Methods: []grpc.MethodDesc{
			{MethodName: "Add", Handler: unary(methodAdd, l.addOne)},
			{MethodName: "Values", Handler: unary(methodValues, func(_ context.Context, in *wrapperspb.StringValue) (any, error) {
				m, err := decode(in)
				if err != nil {
					return nil, err
				}
				text, err := json.Marshal(l.values(string(m.Resource)))
				return wrapperspb.String(string(text)), err
			})},
		},
		Streams: []grpc.StreamDesc{{
			StreamName: "AddAll", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				for {
					in := new(wrapperspb.StringValue)
					if err := stream.RecvMsg(in); err != nil {
						if errors.Is(err, io.EOF) {
							return nil
						}
						return err
					}
					out, err := l.addOne(stream.Context(), in)
					if err != nil {
						return err
					}
					if err := stream.SendMsg(out); err != nil {
						return err
					}
				}
			},
		}},
	}
}

// newServer returns a server of the lists behind the interceptors.
func newServer(guard fence.Guard, l *lists) (*grpc.Server, error) {
	config := grpcfence.ServerConfig{
		Guard: guard,
		Resource: func(_ context.Context, _ string, request any) (string, error) {
			m, err := decode(request.(*wrapperspb.StringValue))
			return string(m.Resource), err
		},
		Read: func(method string) bool { return method == methodValues },
	}
	unary, err := grpcfence.UnaryServerInterceptor(config)
	if err != nil {
		return nil, err
	}
	stream, err := grpcfence.StreamServerInterceptor(config)
	if err != nil {
		return nil, err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream))
	server.RegisterService(l.desc(), nil)
	return server, nil
}

// memoryLists keeps the lists in this process.
func memoryLists() *lists {
	var mu sync.Mutex
	kept := make(map[string][]string)
	return &lists{
		add: func(ctx context.Context, value string) error {
			w, ok := fence.WriteFrom(ctx)
			if !ok {
				return errors.New("no admission in the context")
			}
			mu.Lock()
			defer mu.Unlock()
			kept[w.Resource] = append(kept[w.Resource], value)
			return nil
		},
		values: func(resource string) []string {
			mu.Lock()
			defer mu.Unlock()
			return kept[resource]
		},
	}
}

// serve starts a server in this process and returns its address.
func serve(t *testing.T, guard fence.Guard, l *lists) string {
	t.Helper()
	server, err := newServer(guard, l)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func dial(t *testing.T, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
