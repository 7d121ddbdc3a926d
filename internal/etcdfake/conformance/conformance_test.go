// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"example.com/leasehold/internal/etcdfake"
	"example.com/leasehold/internal/etcdfake/conformance"
)

const progressInterval = 200 * time.Millisecond

func TestFake_BehavesAsEtcd(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Subject { return fakeSubject(t, etcdfake.Options{Seed: 1}) })
}

func TestFake_BehavesAsEtcdInBubbles(t *testing.T) {
	conformance.RunInBubbles(t, func(t *testing.T) conformance.Subject { return fakeSubject(t, etcdfake.Options{Seed: 2}) })
}

// With three members and a log that takes its time: the order of what clients observe must not depend on it.
func TestFake_BehavesAsEtcdInBubblesWithLatency(t *testing.T) {
	conformance.RunInBubbles(t, func(t *testing.T) conformance.Subject {
		return fakeSubject(t, etcdfake.Options{
			Seed: 3, Members: 3,
			CommitLatency: time.Millisecond, CommitJitter: time.Millisecond, ApplyLatency: time.Millisecond, PeerDelay: time.Millisecond,
		})
	})
}

func fakeSubject(t *testing.T, opts etcdfake.Options) conformance.Subject {
	opts.ElectionTimeout, opts.ProgressInterval = 100*time.Millisecond, progressInterval
	c := etcdfake.NewForTest(t, opts)
	return conformance.Subject{
		Client:           func(t *testing.T) *clientv3.Client { return c.Client(t) },
		MinTTL:           1,
		ProgressInterval: progressInterval,
	}
}

func TestEtcd_BehavesAsTheSuiteSays(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Subject {
		endpoint := startEtcd(t)
		return conformance.Subject{
			Client: func(t *testing.T) *clientv3.Client {
				cli, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cli.Close() })
				return cli
			},
			MinTTL:           1,
			ProgressInterval: progressInterval,
		}
	})
}

func startEtcd(t *testing.T) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	loopback := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = loopback, loopback
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = loopback, loopback
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.WatchProgressNotifyInterval = progressInterval
	cfg.UnsafeNoFsync = true
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	select {
	case <-e.Server.ReadyNotify():
	case <-time.After(time.Minute):
		t.Fatal("etcd did not start within a minute")
	}
	return e.Clients[0].Addr().String()
}
