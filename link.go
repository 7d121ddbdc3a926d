// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// A link is one bidirectional stream to one chosen member, on a connection of its own: what is stuck in one link, or in
// its connection, delays no other. It has two goroutines, both ended by its context: one dials, opens the stream and
// receives, the other sends. Both may block on the network at any time; owners never do.
type link[Q, A any] struct {
	endpoint string
	wake     bell // there may be something to send
	cancel   context.CancelFunc
}

// A linkOwner decides what goes over its links. Its methods are called without locks held: opened, received and closed
// from one goroutine of the link, next from the other.
type linkOwner[Q, A any] interface {
	// open makes the stream.
	open(ctx context.Context, l *link[Q, A], conn *grpc.ClientConn) (grpc.BidiStreamingClient[Q, A], error)
	// next returns the next message to send, or nil if there is none now. The message goes out after next has returned,
	// never before, so whatever must be noted before the send is noted there (R1).
	next(l *link[Q, A]) *Q
	received(l *link[Q, A], answer *A)
	// closed tells, once and last, that nothing will be received any more.
	closed(l *link[Q, A], err error)
}

// startLink begins to open a link to endpoint. It does not wait for it.
func startLink[Q, A any](e *engine, endpoint string, owner linkOwner[Q, A]) *link[Q, A] {
	ctx, cancel := context.WithCancel(e.ctx)
	l := &link[Q, A]{endpoint: endpoint, wake: newBell(), cancel: cancel}
	e.wg.Go(func() {
		defer cancel()
		err := l.run(ctx, e, owner)
		owner.closed(l, err)
	})
	return l
}

// kick makes the sender look at next again.
func (l *link[Q, A]) kick() { l.wake.ring() }

func (l *link[Q, A]) run(ctx context.Context, e *engine, owner linkOwner[Q, A]) error {
	conn, err := e.dial(l.endpoint)
	if err != nil {
		return fmt.Errorf("dial %s: %w", l.endpoint, err)
	}
	defer func() { _ = conn.Close() }() // nothing is lost with it
	// A member cut off from its quorum ends the stream, so that another one can be asked.
	stream, err := owner.open(clientv3.WithRequireLeader(ctx), l, conn)
	if err != nil {
		return fmt.Errorf("open a stream to %s: %w", l.endpoint, err)
	}
	e.wg.Go(func() { l.send(ctx, stream, owner) })
	for {
		answer, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("stream to %s: %w", l.endpoint, err)
		}
		owner.received(l, answer)
	}
}

func (l *link[Q, A]) send(ctx context.Context, stream grpc.BidiStreamingClient[Q, A], owner linkOwner[Q, A]) {
	for {
		for m := owner.next(l); m != nil; m = owner.next(l) {
			if err := stream.Send(m); err != nil {
				if !errors.Is(err, io.EOF) { // after io.EOF, Recv tells why
					l.cancel()
				}
				return
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
			return
		}
	}
}

// dial connects to one endpoint.
func (e *engine) dial(endpoint string) (conn *grpc.ClientConn, err error) {
	defer withoutEndpoints(&err)
	return e.client.Dial(endpoint)
}

// status asks the member behind one endpoint how it is.
func (e *engine) status(ctx context.Context, endpoint string) (resp *clientv3.StatusResponse, err error) {
	defer withoutEndpoints(&err)
	return e.client.Status(ctx, endpoint)
}

// withoutEndpoints turns the panic of an etcd client into an error. To dial one endpoint, it looks at the first of all, for no good
// reason, and SetEndpoints may just have left it none.
func withoutEndpoints(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("leasehold: the etcd client cannot dial: %v", p)
	}
}
