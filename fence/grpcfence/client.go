// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// ClientConfig tunes the client interceptors. The zero value works.
type ClientConfig struct {
	// Optional lets calls without a grant in their context pass as they are. Otherwise they are not sent, and the error
	// matches [fence.ErrNoGrant].
	Optional bool
}

// UnaryClientInterceptor adds the token of the grant in a call's context ([leasehold.NewContext]) and sends nothing if the
// grant is not valid any more. Refusals come back as [ErrorFrom] says.
func UnaryClientInterceptor(config ClientConfig) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		ctx, err := config.outgoing(ctx)
		if err != nil {
			return err
		}
		return ErrorFrom(invoke(ctx, method, request, reply, conn, options...))
	}
}

// StreamClientInterceptor does the same for streams. The stream keeps the token that it was opened with, and each message
// is sent only if the grant is valid at that moment.
func StreamClientInterceptor(config ClientConfig) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		outgoing, err := config.outgoing(ctx)
		if err != nil {
			return nil, err
		}
		stream, err := open(outgoing, desc, conn, method, options...)
		if err != nil {
			return nil, ErrorFrom(err)
		}
		return &clientStream{ClientStream: stream, ctx: ctx, config: config}, nil
	}
}

// outgoing returns ctx with the token. A call that has one already is not sent: one of the two would be wrong.
func (c ClientConfig) outgoing(ctx context.Context) (context.Context, error) {
	token, err := c.token(ctx)
	if err != nil || token == 0 {
		return ctx, err
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok && len(md.Get(Key)) > 0 {
		return nil, fmt.Errorf("grpcfence: not sent, the call has a %s already", Key)
	}
	return WithToken(ctx, token), nil
}

// token returns zero for a call that may go without.
func (c ClientConfig) token(ctx context.Context) (leasehold.Token, error) {
	token, err := fence.TokenFrom(ctx)
	if c.Optional && errors.Is(err, fence.ErrNoGrant) {
		return 0, nil
	}
	return token, err
}

type clientStream struct {
	grpc.ClientStream
	ctx    context.Context // with the grant
	config ClientConfig
}

func (s *clientStream) SendMsg(message any) error {
	if _, err := s.config.token(s.ctx); err != nil {
		return err
	}
	return ErrorFrom(s.ClientStream.SendMsg(message))
}

func (s *clientStream) RecvMsg(message any) error {
	return ErrorFrom(s.ClientStream.RecvMsg(message))
}
