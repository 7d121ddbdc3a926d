// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// requests counts all requests, of whatever method, that reach any member from now on.
func (r *rig) requests() func() int {
	n := make(chan int, 1)
	n <- 0
	r.cluster.Hook(func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		n <- <-n + 1
		return next(ctx)
	})
	return func() int {
		r.quiet()
		v := <-n
		n <- v
		return v
	}
}

func TestCalls_WithAnEndedContextSendNothing(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		s := r.open(Config{})
		pool, err := New(r.client, Config{})
		r.must(err)
		r.must(r.lock(s, "name").Release(r.Context()))
		r.quiet() // what the opening does behind is done
		ended, cancel := context.WithCancel(r.Context())
		cancel()
		sent := r.requests()
		nothing := func(context.Context, *Grant) error { return nil }
		for call, err := range map[string]error{
			"Session.Lock":    second(s.Lock(ended, "name")),
			"Session.TryLock": second(s.TryLock(ended, "name")),
			"Session.Do":      s.Do(ended, "name", nothing),
			"Client.Lock":     second(pool.Lock(ended, "name")),
			"Client.TryLock":  second(pool.TryLock(ended, "name")),
			"Client.Do":       pool.Do(ended, "name", nothing),
			"Client.Session":  second(pool.Session(ended)),
			"NewSession":      second(NewSession(ended, r.client, Config{})),
			"Campaign":        second(s.Election("name").Campaign(ended, "me")),
		} {
			if !errors.Is(err, context.Canceled) {
				r.Errorf("%s: %v, want %v", call, err, context.Canceled)
			}
		}
		if n := sent(); n != 0 {
			r.Errorf("%d requests reached the cluster, want none", n)
		}
		r.must(pool.Close(r.Context()))
	})
}
