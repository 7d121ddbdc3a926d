// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// An etcd client that begins with one endpoint and learns the others later, as by its Sync, is brought to the leader too.
func TestPilot_EndpointsLearnedLaterLeadToTheLeader(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		all := r.client.Endpoints()
		r.client.SetEndpoints(all[1])
		s := r.open(Config{})
		time.Sleep(10 * time.Minute)
		r.client.SetEndpoints(all...)
		time.Sleep(2 * time.Minute)
		r.wantRenewalsAt(s, 0)
	})
}

// SetEndpoints can leave an etcd client without any, for which its Dial and Status panic. A session waits for better days.
func TestStream_AClientWithoutEndpointsIsNoPanic(t *testing.T) {
	bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
		s := r.open(Config{})
		all := r.client.Endpoints()
		time.Sleep(s.TTL())
		r.quiet()
		r.client.SetEndpoints()
		if _, err := s.engine.dial(all[0]); err == nil {
			r.Error("a client without endpoints dials")
		}
		if _, err := s.engine.status(r.Context(), all[0]); err == nil {
			r.Error("a client without endpoints asks a member")
		}
		r.cluster.SetLeader(1) // everybody looks where it is
		r.cluster.Member(0).ResetConnections()
		time.Sleep(s.TTL() / 3)
		r.quiet()
		r.client.SetEndpoints(all...)
		time.Sleep(2 * s.TTL())
		if !s.Valid() {
			r.Errorf("lost: %v", s.Err())
		}
	})
}
