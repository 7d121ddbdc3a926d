// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const ms = time.Millisecond

// inBubble runs a test with a cluster in a bubble.
func inBubble(t *testing.T, opts Options, f func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, NewForTest(t, opts)) })
}

// only makes a client that knows a single member.
func only(t *testing.T, c *Cluster, member int) *clientv3.Client {
	t.Helper()
	return c.Client(t, func(cfg *clientv3.Config) { cfg.Endpoints = []string{c.Member(member).Endpoint()} })
}

// renewals is a keepalive stream to one member.
type renewals struct {
	t      *testing.T
	stream pb.Lease_LeaseKeepAliveClient
}

func renewing(ctx context.Context, t *testing.T, cli *clientv3.Client) *renewals {
	t.Helper()
	s, err := pb.NewLeaseClient(cli.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &renewals{t, s}
}

func (r *renewals) send(id clientv3.LeaseID) {
	r.t.Helper()
	// A stream that the server has ended takes no more: its error is what the next answer is.
	if err := r.stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
		r.t.Fatal(err)
	}
}

func (r *renewals) next() *pb.LeaseKeepAliveResponse {
	r.t.Helper()
	resp, err := r.stream.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	return resp
}

func (r *renewals) renew(id clientv3.LeaseID) int64 {
	r.t.Helper()
	r.send(id)
	return r.next().TTL
}

func mustGrant(t *testing.T, cli *clientv3.Client, ttl int64) clientv3.LeaseID {
	t.Helper()
	resp, err := cli.Grant(t.Context(), ttl)
	if err != nil {
		t.Fatal(err)
	}
	return resp.ID
}

func mustPut(t *testing.T, cli *clientv3.Client, key, value string, opts ...clientv3.OpOption) int64 {
	t.Helper()
	resp, err := cli.Put(t.Context(), key, value, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header.Revision
}

// took runs f and returns how long it took by true time.
func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func within(t *testing.T, what string, got, least, most time.Duration) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %v, want between %v and %v", what, got, least, most)
	}
}

// expects fails unless err is or wraps want.
func expects(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}
