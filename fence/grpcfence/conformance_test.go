// SPDX-License-Identifier: Apache-2.0

package grpcfence_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/grpcfence"
	"example.com/leasehold/fence/internal/journal"
	"example.com/leasehold/fence/internal/lists"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/internal/servers/etcdserver"
)

const journalRole = "gRPC server with a journal"

func TestMain(m *testing.M) {
	servers.Main(map[string]servers.Role{journalRole: serveJournal, etcdserver.Role: etcdserver.Serve})
	os.Exit(m.Run())
}

// serveJournal is the server that is killed in between: its lists and marks are in a file.
func serveJournal(addr, dir string) error {
	j, err := journal.Open(context.Background(), dir)
	if err != nil {
		return err
	}
	server, err := (&lists.Lists{Add: j.Append, Values: j.Values}).FencedServer(&j.Gate)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

var serial atomic.Int64

// subject writes through add, which makes one call that carries a token.
func subject(conn *grpc.ClientConn, add func(ctx context.Context, m lists.Message) error) fencetest.Subject {
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return add(grpcfence.WithToken(ctx, token), lists.Message{Resource: []byte(resource), Value: value})
		},
		WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
			name := strconv.FormatInt(serial.Add(1), 10)
			lists.Pauses.Store(name, pause)
			defer lists.Pauses.Delete(name)
			return add(grpcfence.WithToken(ctx, token), lists.Message{Resource: []byte(resource), Value: value, Pause: name})
		},
		Values: func(ctx context.Context, resource string) ([]string, error) {
			out := new(wrapperspb.StringValue)
			if err := conn.Invoke(ctx, lists.MethodValues, lists.Encode(lists.Message{Resource: []byte(resource)}), out); err != nil {
				return nil, err
			}
			var values []string
			return values, json.Unmarshal([]byte(out.GetValue()), &values)
		},
	}
}

// unary makes a unary call.
func unary(conn *grpc.ClientConn) func(context.Context, lists.Message) error {
	return func(ctx context.Context, m lists.Message) error {
		return grpcfence.ErrorFrom(conn.Invoke(ctx, lists.MethodAdd, lists.Encode(m), new(wrapperspb.BoolValue)))
	}
}

// stream opens a stream for one message.
func stream(conn *grpc.ClientConn) func(context.Context, lists.Message) error {
	return func(ctx context.Context, m lists.Message) error {
		s, err := conn.NewStream(ctx, lists.AddAllDesc, lists.MethodAddAll)
		if err != nil {
			return grpcfence.ErrorFrom(err)
		}
		if err := s.SendMsg(lists.Encode(m)); err != nil && !errors.Is(err, io.EOF) {
			return grpcfence.ErrorFrom(err)
		}
		if err := s.RecvMsg(new(wrapperspb.BoolValue)); err != nil {
			return grpcfence.ErrorFrom(err)
		}
		if err := s.CloseSend(); err != nil {
			return err
		}
		// The message is kept; that a newer token came before the end of the stream does not undo it.
		err = grpcfence.ErrorFrom(s.RecvMsg(new(wrapperspb.BoolValue)))
		if errors.Is(err, io.EOF) || errors.Is(err, leasehold.ErrStaleToken) {
			return nil
		}
		return err
	}
}

func TestUnary_Conformance(t *testing.T) {
	conn := dial(t, serve(t, &fence.Gate{}, lists.Memory()))
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(conn, unary(conn)) }, fencetest.Options{Writes: 2_000})
}

func TestStream_Conformance(t *testing.T) {
	conn := dial(t, serve(t, &fence.Gate{}, lists.Memory()))
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(conn, stream(conn)) }, fencetest.Options{Writes: 2_000})
}

func TestUnary_ConformanceWithAKilledServer(t *testing.T) {
	server := servers.Self(t, journalRole)
	conn := dial(t, server.Addr)
	ready := func(ctx context.Context) error {
		conn.ResetConnectBackoff()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return conn.Invoke(ctx, lists.MethodValues, lists.Encode(lists.Message{}), new(wrapperspb.StringValue))
	}
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		s := subject(conn, unary(conn))
		s.WritePaused = nil // the handler is in another process
		s.Restart = func(ctx context.Context) error { return server.Restart(ctx, ready) }
		return s
	}, fencetest.Options{})
}
