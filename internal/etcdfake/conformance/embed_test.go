// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// electionTimeout is of the clusters of three: long enough that a busy machine does not change their leader.
const electionTimeout = time.Second

var anyPort = url.URL{Scheme: "http", Host: "127.0.0.1:0"}

// member is an embedded member that can be stopped before the test ends.
type member struct {
	*embed.Etcd
	stop func()
}

func start(t *testing.T, cfg *embed.Config) (member, error) {
	t.Helper()
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return member{}, err
	}
	m := member{e, sync.OnceFunc(e.Close)}
	t.Cleanup(m.stop)
	return m, nil
}

// startOne starts a single embedded member that elects itself within a tenth of a second, and returns its endpoint.
func startOne(t *testing.T) string {
	t.Helper()
	cfg := config(t, "one", anyPort)
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.WatchProgressNotifyInterval = progressInterval
	e, err := start(t, cfg)
	if err != nil {
		t.Fatal(err)
	}
	awaitReady(t, e)
	return e.Clients[0].Addr().String()
}

// startThree starts a cluster. Its members must know each other's addresses before they listen on them, and somebody
// else can take one meanwhile: then it tries others.
func startThree(t *testing.T) []member {
	t.Helper()
	var err error
	for range 5 {
		var ms []member
		if ms, err = tryThree(t, freePorts(t, 3)); err == nil {
			for _, e := range ms {
				awaitReady(t, e)
			}
			return ms
		}
	}
	t.Fatal(err)
	return nil
}

func tryThree(t *testing.T, peers []url.URL) (ms []member, err error) {
	t.Helper()
	var names []string
	for i, p := range peers {
		names = append(names, fmt.Sprintf("m%d=%s", i, &p))
	}
	for i, p := range peers {
		cfg := config(t, fmt.Sprintf("m%d", i), p)
		cfg.InitialCluster = strings.Join(names, ",")
		cfg.TickMs, cfg.ElectionMs = uint(electionTimeout.Milliseconds()/10), uint(electionTimeout.Milliseconds())
		m, err := start(t, cfg)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return ms, nil
}

func config(t *testing.T, name string, peer url.URL) *embed.Config {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir = name, t.TempDir()
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.UnsafeNoFsync = true
	cfg.AuthTokenTTL = uint(tokenTTL / time.Second)
	cfg.BcryptCost = 4 // the least there is
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return cfg
}

func awaitReady(t *testing.T, e member) {
	t.Helper()
	select {
	case <-e.Server.ReadyNotify():
	case err := <-e.Err():
		t.Fatal(err)
	case <-time.After(time.Minute):
		t.Fatal("etcd did not start within a minute")
	}
}

func freePorts(t *testing.T, n int) (all []url.URL) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // all at the end, so that none is given out twice
		all = append(all, url.URL{Scheme: "http", Host: l.Addr().String()})
	}
	return all
}
