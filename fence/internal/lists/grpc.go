// SPDX-License-Identifier: Apache-2.0

package lists

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold/fence"
	"example.com/leasehold/fence/grpcfence"
)

// The methods over gRPC. There is no generated code: messages are JSON in a StringValue.
const (
	MethodAdd    = "/lists.Lists/Add"
	MethodValues = "/lists.Lists/Values"
	MethodAddAll = "/lists.Lists/AddAll"
)

// AddAllDesc describes the stream.
var AddAllDesc = &grpc.StreamDesc{StreamName: "AddAll", ClientStreams: true, ServerStreams: true}

// Message is a request of the service.
type Message struct {
	Resource []byte // bytes, because JSON repairs a string that is not UTF-8
	Value    string
	Pause    string // names a function of Pauses to call before the value is kept
}

// Encode puts a request into the message that goes over the wire.
func Encode(m Message) *wrapperspb.StringValue {
	text, _ := json.Marshal(m) // strings and bytes only
	return wrapperspb.String(string(text))
}

func decode(in *wrapperspb.StringValue) (Message, error) {
	var m Message
	return m, json.Unmarshal([]byte(in.GetValue()), &m)
}

// Pauses are the functions that a handler in this process calls.
var Pauses sync.Map

func (l *Lists) addOne(ctx context.Context, in *wrapperspb.StringValue) (any, error) {
	m, err := decode(in)
	if err != nil {
		return nil, err
	}
	if pause, ok := Pauses.Load(m.Pause); ok {
		pause.(func())()
	}
	return wrapperspb.Bool(true), l.Add(ctx, m.Value)
}

func (l *Lists) desc() *grpc.ServiceDesc {
	unary := func(full string, serve func(context.Context, *wrapperspb.StringValue) (any, error)) grpc.MethodHandler {
		return func(server any, ctx context.Context, dec func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			in := new(wrapperspb.StringValue)
			if err := dec(in); err != nil {
				return nil, err
			}
			handler := func(ctx context.Context, request any) (any, error) {
				return serve(ctx, request.(*wrapperspb.StringValue))
			}
			if intercept == nil {
				return handler(ctx, in)
			}
			return intercept(ctx, in, &grpc.UnaryServerInfo{Server: server, FullMethod: full}, handler)
		}
	}
	return &grpc.ServiceDesc{
		ServiceName: "lists.Lists",
		Methods: []grpc.MethodDesc{
			{MethodName: "Add", Handler: unary(MethodAdd, l.addOne)},
			{MethodName: "Values", Handler: unary(MethodValues, func(_ context.Context, in *wrapperspb.StringValue) (any, error) {
				m, err := decode(in)
				if err != nil {
					return nil, err
				}
				text, err := json.Marshal(l.Values(string(m.Resource)))
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

// FencedServer returns a server of the lists behind the interceptors.
func (l *Lists) FencedServer(guard fence.Guard) (*grpc.Server, error) {
	config := grpcfence.ServerConfig{
		Guard: guard,
		Resource: func(_ context.Context, _ string, request any) (string, error) {
			m, err := decode(request.(*wrapperspb.StringValue))
			return string(m.Resource), err
		},
		Read: func(method string) bool { return method == MethodValues },
	}
	unary, err := grpcfence.UnaryServerInterceptor(config)
	if err != nil {
		return nil, err
	}
	stream, err := grpcfence.StreamServerInterceptor(config)
	if err != nil {
		return nil, err
	}
	return l.Server(grpc.UnaryInterceptor(unary), grpc.StreamInterceptor(stream)), nil
}

// Server returns a server of the lists with these options.
func (l *Lists) Server(options ...grpc.ServerOption) *grpc.Server {
	server := grpc.NewServer(options...)
	server.RegisterService(l.desc(), nil)
	return server
}
