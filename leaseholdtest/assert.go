// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
)

// goroutineGrace is how long [NoGoroutines] waits for goroutines that have been told to end: connections that were
// closed take some scheduling to be gone.
const goroutineGrace = 5 * time.Second

// Eventually waits until cond is true, and ends the test if that takes longer than timeout. It looks every few
// milliseconds, from the calling goroutine. What completes the sentence "... is not true within".
func Eventually(t testing.TB, timeout time.Duration, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := bounded(t, timeout)
	defer cancel()
	if waitUntil(ctx, cond) != nil {
		t.Fatalf("%s: not within %v", what, timeout)
	}
}

// NoGoroutines fails the test if goroutines that were started after this call are still running when the test and
// its later clean-ups are over. Call it first, before [Start]. It cannot tell the goroutines of parallel tests apart.
func NoGoroutines(t testing.TB) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		ctx, cancel := bounded(t, goroutineGrace)
		defer cancel()
		var left error
		if waitUntil(ctx, func() bool { left = goleak.Find(before); return left == nil }) != nil {
			t.Errorf("leaseholdtest: goroutines are left: %v", left)
		}
	})
}

// NoKeys fails the test if there are keys that begin with prefix. It asks etcd's leader, so it sees every write that
// has been answered.
func (c *Cluster) NoKeys(t testing.TB, prefix string) {
	t.Helper()
	ctx, cancel := bounded(t, startTimeout)
	defer cancel()
	keys, err := c.Keys(ctx, prefix)
	if err != nil {
		t.Errorf("no keys under %q: %v", prefix, err)
	}
	if len(keys) > 0 {
		t.Errorf("no keys under %q: there are %s", prefix, listed(keys))
	}
}

// NoKeysWithin waits until there are no keys that begin with prefix, and fails the test if that takes longer than
// timeout. It watches the keys: it returns as soon as the last one goes.
func (c *Cluster) NoKeysWithin(t testing.TB, timeout time.Duration, prefix string) {
	t.Helper()
	ctx, cancel := bounded(t, timeout)
	defer cancel()
	var left []string
	err := c.operate(ctx, "watch keys", func(cl *clientv3.Client) (err error) {
		left, err = untilGone(ctx, cl, prefix)
		return err
	})
	switch {
	case err == nil:
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		t.Errorf("no keys under %q: not within %v, there are %s", prefix, timeout, listed(left))
	default:
		t.Errorf("no keys under %q: %v", prefix, err)
	}
}

// untilGone returns when there are no keys under prefix, or with an error and the keys that are left.
func untilGone(ctx context.Context, cl *clientv3.Client, prefix string) ([]string, error) {
	r, err := cl.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, err
	}
	var left []string
	for _, kv := range r.Kvs {
		left = append(left, string(kv.Key))
	}
	if len(left) == 0 {
		return nil, nil
	}
	since := clientv3.WithRev(r.Header.Revision + 1)
	for w := range cl.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), since) {
		if err := w.Err(); err != nil {
			return left, err
		}
		for _, ev := range w.Events {
			key := string(ev.Kv.Key)
			left = slices.DeleteFunc(left, func(k string) bool { return k == key })
			if ev.Type == clientv3.EventTypePut {
				left = append(left, key)
			}
		}
		if len(left) == 0 {
			return nil, nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return left, err
	}
	return left, errors.New("the watch ended")
}

// bounded is a context for a step of a test, which also works in the test's clean-up.
func bounded(t testing.TB, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
}

// listed is a bounded list of keys for a message.
func listed(keys []string) string {
	const most = 10
	quoted := make([]string, 0, most+1)
	for i, k := range keys {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(keys)-most))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", k))
	}
	return strings.Join(quoted, ", ")
}
