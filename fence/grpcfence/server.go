// SPDX-License-Identifier: Apache-2.0

// Package grpcfence carries fencing tokens over gRPC and checks them at the server: interceptors for unary calls and
// streams, on both sides.
//
// The token travels in the metadata, under [Key]. The server decides which resource a call writes to. A refusal is a status
// of code FailedPrecondition with a google.rpc.ErrorInfo, which the client interceptors turn back into the error that it
// came from.
//
// The handler runs inside the admission of a [fence.Guard]; package httpfence says which one is right when.
package grpcfence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// ServerConfig tells the server interceptors what to check. Guard and Resource are needed.
type ServerConfig struct {
	// Guard admits the writes.
	Guard fence.Guard
	// Resource names what a message writes to; method is the full one, "/package.Service/Method". The
	// call fails with InvalidArgument if it returns an error.
	Resource func(ctx context.Context, method string, message any) (string, error)
	// Read reports whether a method only reads; its calls pass without a token. Default: none does.
	Read func(method string) bool
}

func (c ServerConfig) check() error {
	if c.Guard == nil || c.Resource == nil {
		return errors.New("grpcfence: interceptor needs a Guard and a Resource")
	}
	return nil
}

func (c ServerConfig) reads(method string) bool { return c.Read != nil && c.Read(method) }

// begin admits the write that message makes.
func (c ServerConfig) begin(ctx context.Context, resource string, token leasehold.Token) (fence.Admission, error) {
	admission, err := c.Guard.Begin(ctx, resource, token)
	if err != nil {
		return nil, statusOf(err, ReasonUnavailable)
	}
	return admission, nil
}

func (c ServerConfig) resource(ctx context.Context, method string, message any) (string, error) {
	resource, err := c.Resource(ctx, method, message)
	if err == nil {
		return resource, nil
	}
	if !errors.Is(err, fence.ErrInvalidResource) {
		err = fmt.Errorf("%w: %w", fence.ErrInvalidResource, err)
	}
	return "", statusOf(err, ReasonUnavailable)
}

// UnaryServerInterceptor checks the token of each call and runs the handler in the admission. An error or a panic of the
// handler discards the write.
func UnaryServerInterceptor(config ServerConfig) (grpc.UnaryServerInterceptor, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		if config.reads(info.FullMethod) {
			return handle(ctx, request)
		}
		token, err := TokenFromIncoming(ctx)
		if err != nil {
			return nil, statusOf(err, ReasonUnavailable)
		}
		resource, err := config.resource(ctx, info.FullMethod, request)
		if err != nil {
			return nil, err
		}
		admission, err := config.begin(ctx, resource, token)
		if err != nil {
			return nil, err
		}
		defer admission.Discard()
		reply, err := handle(admission.Context(), request)
		if err != nil {
			return nil, err
		}
		if err := admission.Commit(); err != nil {
			return nil, statusOf(err, ReasonOutcomeUnknown)
		}
		return reply, nil
	}, nil
}

// StreamServerInterceptor checks the token of a stream at each message that it receives. The admission lasts from there
// until the handler asks for the next message or returns, so an idle stream of an old holder holds nobody up. After the last
// message the token is checked once more, for its resource, for what the handler does before it returns.
//
// A handler that is still at work on one message when it asks for the next, and one that writes for several messages at
// once to different resources, must check for itself. What a commit says when it fails comes from the next RecvMsg, or takes the place of
// the handler's result.
func StreamServerInterceptor(config ServerConfig) (grpc.StreamServerInterceptor, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if config.reads(info.FullMethod) {
			return handle(server, stream)
		}
		token, err := TokenFromIncoming(stream.Context())
		if err != nil {
			return statusOf(err, ReasonUnavailable)
		}
		fenced := &serverStream{ServerStream: stream, config: config, method: info.FullMethod, token: token}
		defer fenced.discard()
		if err := handle(server, fenced); err != nil {
			return err
		}
		return fenced.commit()
	}, nil
}

type serverStream struct {
	grpc.ServerStream
	config ServerConfig
	method string
	token  leasehold.Token

	mu        sync.Mutex // a stream may be received from and sent on by two goroutines
	admission fence.Admission
	resource  string // of the last message
}

// Context is that of the admission while one is open.
func (s *serverStream) Context() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.admission != nil {
		return s.admission.Context()
	}
	return s.ServerStream.Context()
}

func (s *serverStream) RecvMsg(message any) error {
	if err := s.commit(); err != nil {
		return err
	}
	err := s.ServerStream.RecvMsg(message)
	last := errors.Is(err, io.EOF)
	if err != nil && !last {
		return err
	}
	resource := s.resource
	if !last {
		var err error
		if resource, err = s.config.resource(s.ServerStream.Context(), s.method, message); err != nil {
			return err
		}
	}
	if resource == "" && last {
		return err // there was no message: nothing to write for
	}
	admission, refused := s.config.begin(s.ServerStream.Context(), resource, s.token)
	if refused != nil {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.admission, s.resource = admission, resource
	return err
}

// take returns the open admission, if any, and forgets it.
func (s *serverStream) take() fence.Admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	admission := s.admission
	s.admission = nil
	return admission
}

func (s *serverStream) commit() error {
	admission := s.take()
	if admission == nil {
		return nil
	}
	if err := admission.Commit(); err != nil {
		return statusOf(err, ReasonOutcomeUnknown)
	}
	return nil
}

func (s *serverStream) discard() {
	if admission := s.take(); admission != nil {
		admission.Discard()
	}
}
