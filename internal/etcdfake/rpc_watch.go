// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/protobuf/proto"
)

type watchServer struct {
	pb.UnimplementedWatchServer
	m *Member
}

// Watch serves one stream: one goroutine takes requests, another sends what the hub queues.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	c := s.m.cluster
	c.mu.Lock()
	ws := s.m.watches.openLocked()
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		ws.closeLocked()
	}()
	failed := make(chan error, 2)
	go func() {
		// A client that has sent its last request still gets events.
		if err := s.receive(stream, ws); err != nil {
			failed <- err
		}
	}()
	go func() { failed <- s.send(stream, ws) }()
	var err error
	select {
	case err = <-failed:
	case <-stream.Context().Done():
		err = stream.Context().Err()
	}
	if errors.Is(err, context.Canceled) {
		err = rpctypes.ErrGRPCWatchCanceled
	}
	return err
}

func (s *watchServer) receive(stream pb.Watch_WatchServer, ws *watchStream) error {
	ctx := stream.Context()
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = s.m.cluster.hooks.run(ctx, s.m.callOf(ctx, "Watch/Watch", req), func(ctx context.Context) (proto.Message, error) {
			if err := s.m.awaitRunning(ctx); err != nil {
				return nil, err
			}
			s.handle(ctx, req, ws)
			return &pb.WatchResponse{}, nil // for the hooks: what it leads to is sent when it happens
		})
		if err != nil {
			return err
		}
	}
}

func (s *watchServer) handle(ctx context.Context, req *pb.WatchRequest, ws *watchStream) {
	c := s.m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if ws.closed {
		return
	}
	switch {
	case req.GetCreateRequest() != nil:
		r := req.GetCreateRequest()
		who, err := c.auth.userLocked(ctx)
		if err == nil {
			err = c.permitsLocked(who, watchesOf(r))
		}
		if err != nil && r.StartRevision >= 0 {
			ws.refuseLocked(err.Error())
			return
		}
		ws.createLocked(r)
	case req.GetCancelRequest() != nil:
		ws.cancelLocked(req.GetCancelRequest().WatchId)
	case req.GetProgressRequest() != nil:
		ws.progressAllLocked()
	}
}

func (s *watchServer) send(stream pb.Watch_WatchServer, ws *watchStream) error {
	ctx := stream.Context()
	for {
		select {
		case <-ws.queued:
		case <-ctx.Done():
			return ctx.Err()
		}
		s.m.cluster.mu.Lock()
		answers := ws.takeLocked()
		s.m.cluster.mu.Unlock()
		for _, r := range answers {
			if err := stream.Send(r); err != nil {
				return err
			}
		}
	}
}
