// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"net"
	"sync"
)

// listener hands dialled connections to a member's gRPC server.
type listener struct {
	address *addr
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func newListener(address string) *listener {
	return &listener{address: &addr{name: address}, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *listener) offer(ctx context.Context, c net.Conn) error {
	select {
	case l.conns <- c:
		return nil
	case <-l.done:
		return net.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *listener) Addr() net.Addr { return l.address }
