// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// A server that needs a while for thousands of openings is asked once for each of them.
func TestNewSession_ThousandsAtOnceCostOneRequestEach(t *testing.T) {
	bubble(t, etcdfake.Options{}, func(r *rig) {
		busy := make(chan struct{}, 1)
		asked := r.calls("Lease/LeaseGrant")
		r.cluster.Hook(etcdfake.On("Lease/LeaseGrant", func(ctx context.Context, _ etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
			busy <- struct{}{}
			time.Sleep(time.Millisecond)
			<-busy
			return next(ctx)
		}))
		const n = 2000
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				s, err := NewSession(r.Context(), r.client, Config{TTL: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				s.Abandon()
			})
		}
		wg.Wait()
		if got := asked(); got != n {
			r.Errorf("%d requests for %d sessions", got, n)
		}
	})
}

// Attempts that wait for a connection fail all at once when there is none. They are one failure: the next attempt is not kept waiting for
// each of them, and its answer is not behind theirs.
func TestSession_OpensAsSoonAsEtcdIsBackAlthoughManyAttemptsFailed(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		r.open(Config{}) // so that everything is connected
		grants := r.calls("Lease/LeaseGrant")
		r.cluster.Member(0).Blackhole() // and does not answer a new connection either
		r.cluster.Link(r.client, 0).Reset()
		r.cluster.Member(1).Stop()
		r.cluster.Member(2).Stop()
		opened := make(chan error, 1)
		go func() {
			s, err := NewSession(r.Context(), r.client, Config{})
			if err == nil {
				defer s.Abandon()
			}
			opened <- err
		}()
		time.Sleep(22 * time.Second) // grpc has given up its connection to the silent member
		r.cluster.Member(1).Start()
		r.cluster.Member(2).Start()
		back := time.Now()
		r.must(r.result("the opening", opened))
		if d := time.Since(back); d > 3*time.Second {
			r.Errorf("opened %v after two members were back", d)
		}
		if n := grants(); n > 2 {
			r.Errorf("%d leases were granted for one session", n)
		}
	})
}
