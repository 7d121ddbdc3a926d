// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold/internal/etcdfake"
)

// R2, scenario 3: a renewal that reaches the grantor as it finds the lease expired, revokes it, and has not yet applied that, can be
// answered with a full term: by 3.7 for an instant, by older servers for longer. Whatever it says, the holder does not believe at the instant at
// which the name is freed, and not after.
func TestSession_ARenewalThatRacesTheRevocationRevivesNothing(t *testing.T) {
	const ttl = 3 * time.Second
	full := 0 // answers with a full term that came too late
	for name, lease := range map[string]etcdfake.LeaseBehaviour{
		"3.7":              {},
		"before 3.7":       {WaitApplied: true},
		"slow":             {RenewStall: 300 * time.Millisecond},
		"before 3.5.23":    {RenewStall: 300 * time.Millisecond, NoRecheck: true},
		"slow, before 3.7": {RenewStall: 300 * time.Millisecond, WaitApplied: true},
	} {
		t.Run(name, func(t *testing.T) {
			for offset := -700 * time.Millisecond; offset <= 700*time.Millisecond; offset += 50 * time.Millisecond {
				opts := etcdfake.Options{
					Members: 3, Seed: uint64(offset + time.Hour), Lease: lease,
					CommitLatency: 40 * time.Millisecond, ApplyLatency: 60 * time.Millisecond,
				}
				bubble(t, opts, func(r *rig) {
					s := r.open(Config{TTL: ttl})
					g := r.lock(s, "a")
					var freed atomic.Bool
					r.cluster.OnChange(func(ch etcdfake.Change) {
						for _, ev := range ch.Events {
							if ev.Type == mvccpb.Event_DELETE {
								freed.Store(true)
								if g.Valid() {
									r.Errorf("offset %v: believed when the name was freed", offset)
								}
							}
						}
					})
					time.Sleep(5 * time.Second)
					r.quiet()
					// A server at work on a renewal does not look whether its client is still there.
					r.cluster.Hook(etcdfake.On("Lease/LeaseKeepAlive", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
						return next(call.Detached(ctx))
					}))
					r.hold(true, false) // renewals pile up on the way
					expires, ok := r.cluster.LeaseExpiry(s.Lease())
					if !ok {
						r.Fatal("the lease is not there")
					}
					time.Sleep(time.Until(expires.Add(offset)))
					r.release(true, false)
					for range 400 {
						if time.Sleep(10 * time.Millisecond); freed.Load() && g.Valid() {
							r.Fatalf("offset %v: valid after the name was freed", offset)
						}
					}
					for _, n := range r.renewals(s) {
						if n.TTL == ttl && n.Answered.After(expires) && !s.Valid() {
							full++
						}
					}
				})
			}
		})
	}
	if full == 0 {
		t.Error("no renewal was answered with a full term after the expiry: this test does not show what it is for")
	}
	t.Logf("%d renewals were answered with a full term after the expiry, and not believed", full)
}
