// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/leasehold/leaseholdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long bounds what is bound to happen: it is reached by nothing but a failure.
const long = time.Minute

// short is how long a test looks at something that must not happen. Passing proves little on a slow machine, so
// that each such look is paired with one that waits for the thing to happen after all.
const short = 150 * time.Millisecond

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// must ends the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func leaderOf(t *testing.T, c *leaseholdtest.Cluster) *leaseholdtest.Member {
	t.Helper()
	m, err := c.WaitLeader(within(t, long))
	must(t, err)
	return m
}

// followers are the members that do not lead.
func followers(t *testing.T, c *leaseholdtest.Cluster) []*leaseholdtest.Member {
	t.Helper()
	leader := leaderOf(t, c)
	var others []*leaseholdtest.Member
	for _, m := range c.Members() {
		if m != leader {
			others = append(others, m)
		}
	}
	return others
}

// putting starts a put and reports its end.
func putting(t *testing.T, cl *leaseholdtest.Client) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	ctx := within(t, long)
	go func() { done <- put(ctx, cl, "key") }()
	return done
}

// put writes a key. A machine that is busy with other tests can make a cluster of several members lose its leader,
// which answers calls of that moment with an error; put tries again then.
func put(ctx context.Context, cl *leaseholdtest.Client, key string) error {
	for {
		_, err := cl.Put(ctx, key, "value")
		if !unavailable(err) || ctx.Err() != nil {
			return err
		}
	}
}

func unavailable(err error) bool {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}

// pending fails the test if done ends in a short while.
func pending(t *testing.T, done <-chan error, what string) {
	t.Helper()
	timer := time.NewTimer(short)
	defer timer.Stop()
	select {
	case err := <-done:
		t.Fatalf("%s: it ended: %v", what, err)
	case <-timer.C:
	}
}
