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
