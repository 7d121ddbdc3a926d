// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
)

// traffic counts what etcd clients send and receive.
type traffic struct {
	calls      atomic.Int64 // requests with one answer each, as often as they were sent
	sent       atomic.Int64 // messages sent on streams
	watched    atomic.Int64 // messages received on watch streams
	keepalives atomic.Int64 // renewals sent
}

// counts is a snapshot of traffic.
type counts struct{ requests, watched, keepalives int64 }

func (t *traffic) counts() counts {
	return counts{t.calls.Load() + t.sent.Load(), t.watched.Load(), t.keepalives.Load()}
}

func (c counts) minus(o counts) counts {
	return counts{c.requests - o.requests, c.watched - o.watched, c.keepalives - o.keepalives}
}

// options make an etcd client count. They cost an atomic addition a message.
func (t *traffic) options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(t.unary), grpc.WithChainStreamInterceptor(t.stream)}
}

func (t *traffic) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	t.calls.Add(1)
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (t *traffic) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, err
	}
	return &countedStream{s, t, strings.HasSuffix(method, "/Watch"), strings.HasSuffix(method, "/LeaseKeepAlive")}, nil
}

type countedStream struct {
	grpc.ClientStream
	traffic          *traffic
	watch, keepalive bool
}

func (s *countedStream) SendMsg(m any) error {
	s.traffic.sent.Add(1)
	if s.keepalive {
		s.traffic.keepalives.Add(1)
	}
	return s.ClientStream.SendMsg(m)
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err == nil && s.watch {
		s.traffic.watched.Add(1)
	}
	return err
}
