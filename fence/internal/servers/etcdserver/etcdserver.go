// SPDX-License-Identifier: Apache-2.0

// Package etcdserver runs etcd in a process of its own, which a test may kill.
package etcdserver

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"example.com/leasehold/fence/internal/servers"
)

// Role is the name of the role for [servers.Main].
const Role = "etcd"

// Serve is etcd as a [servers.Role].
func Serve(addr, dir string) error {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(dir, "data")
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{"stderr"}
	cfg.TickMs, cfg.ElectionMs = 20, 200 // leases of one second, and up again soon after a kill
	client := url.URL{Scheme: "http", Host: addr}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	// A single member talks to no peer, but must have an address of its own; port 0 is a free one.
	peer := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	return <-etcd.Err()
}

// Start starts etcd and returns it with a client. The package's TestMain must give [Serve] to [servers.Main].
func Start(tb testing.TB) (*servers.Server, *clientv3.Client) {
	tb.Helper()
	server := servers.Self(tb, Role)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Addr}, DialTimeout: time.Minute, Logger: zap.NewNop()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	if err := server.Await(tb.Context(), Ready(client)); err != nil {
		tb.Fatal(err)
	}
	return server, client
}

// Ready returns a function that returns nil once the server has a leader and answers.
func Ready(client *clientv3.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		client.ActiveConnection().ResetConnectBackoff()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := client.Get(ctx, "ready")
		return err
	}
}
