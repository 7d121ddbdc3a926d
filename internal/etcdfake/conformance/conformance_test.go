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
		c := etcdfake.NewForTest(t, etcdfake.Options{Members: 3, Seed: 4, ElectionTimeout: et, CommitLatency: time.Millisecond, PeerDelay: time.Millisecond})
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

func dial(t *testing.T, target string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
