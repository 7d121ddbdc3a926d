// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

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
	t.Parallel()
	conformance.Run(t, func(t *testing.T) conformance.Subject {
		endpoint := startOne(t)
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

func TestFake_LosesMembersAsEtcdInBubbles(t *testing.T) {
	conformance.RunQuorumInBubbles(t, func(t *testing.T) conformance.Quorum {
		const et = time.Second
		c := etcdfake.NewForTest(t, etcdfake.Options{
			Members: 3, Seed: 4, ElectionTimeout: et, CommitLatency: time.Millisecond, PeerDelay: time.Millisecond,
		})
		return conformance.Quorum{
			Dial: func(t *testing.T, i int) *grpc.ClientConn {
				return dial(t, "passthrough:///"+c.Member(i).Endpoint(), grpc.WithContextDialer(c.NewHost().DialContext))
			},
			Stop:            func(i int) { c.Member(i).Stop() },
			ElectionTimeout: et,
		}
	})
}

func TestEtcd_LosesMembersAsTheSuiteSays(t *testing.T) {
	t.Parallel()
	conformance.RunQuorum(t, func(t *testing.T) conformance.Quorum {
		ms := startThree(t)
		return conformance.Quorum{
			Dial:            func(t *testing.T, i int) *grpc.ClientConn { return dial(t, ms[i].Clients[0].Addr().String()) },
			Stop:            func(i int) { ms[i].stop() },
			ElectionTimeout: electionTimeout,
		}
	})
}

const tokenTTL = 2 * time.Second

func TestFake_AuthenticatesAsEtcdInBubbles(t *testing.T) {
	conformance.RunAuthInBubbles(t, func(t *testing.T) conformance.Secured {
		c := etcdfake.NewForTest(t, etcdfake.Options{Seed: 5, Auth: &etcdfake.Auth{
			Users:    map[string]etcdfake.User{"root": {Password: "root"}, "job": {Password: "job", Prefixes: []string{"jobs/"}}},
			TokenTTL: tokenTTL,
		}})
		return secured(c.NewHost().Config())
	})
}

func TestEtcd_AuthenticatesAsTheSuiteSays(t *testing.T) {
	t.Parallel()
	conformance.RunAuth(t, func(t *testing.T) conformance.Secured {
		cfg := clientv3.Config{Endpoints: []string{startOne(t)}, Logger: zap.NewNop()}
		s := secured(cfg)
		cli, err := s.Client(t, "", "")
		if err != nil {
			t.Fatal(err)
		}
		enableAuth(t, cli)
		return s
	})
}

func secured(cfg clientv3.Config) conformance.Secured {
	return conformance.Secured{
		Client: func(t *testing.T, name, password string) (*clientv3.Client, error) {
			cfg.Username, cfg.Password = name, password
			cli, err := clientv3.New(cfg)
			if err == nil {
				t.Cleanup(func() { _ = cli.Close() })
			}
			return cli, err
		},
		TokenTTL: tokenTTL,
	}
}

func enableAuth(t *testing.T, cli *clientv3.Client) {
	t.Helper()
	ctx := t.Context()
	steps := []func() error{
		func() error { _, err := cli.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := cli.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := cli.UserAdd(ctx, "job", "job"); return err },
		func() error { _, err := cli.RoleAdd(ctx, "jobs"); return err },
		func() error {
			end := clientv3.GetPrefixRangeEnd("jobs/")
			_, err := cli.RoleGrantPermission(ctx, "jobs", "jobs/", end, clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := cli.UserGrantRole(ctx, "job", "jobs"); return err },
		func() error { _, err := cli.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func dial(t *testing.T, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
