// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// The session is revoked; the work misses its Progress within the margin.
func TestElector_WorkThatRunsOnAfterALossDoesNotMakeItSpin(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		c, err := New(r.client, Config{Margin: 2 * time.Second})
		r.must(err)
		started := make(chan *Leadership, 1)
		e, err := NewElector(c, ElectorConfig{Name: "a", Progress: time.Second, OnStartedLeading: func(ctx context.Context, l *Leadership) {
			started <- l
			for range 62 {
				l.Progress()
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(20 * time.Second)
		}})
		r.must(err)
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		l := <-started
		time.Sleep(6500 * time.Millisecond)
		_, err = r.client.Revoke(r.Context(), l.Session().Lease())
		r.must(err)
		time.Sleep(10 * time.Second)
		t.Logf("after 10 s: %v", l.Err())
		cancel()
		<-done
		r.must(c.Close(r.Context()))
	})
}
