// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"fmt"
	"net/http"

	"example.com/leasehold/internal/clock"
)

// Name returns the name of the elector's health check: "election-" and the name of the election, escaped as in its key, so
// that it can be a part of a path. With [Elector.Check] it makes an elector what Kubernetes' healthz packages call
// a checker.
func (e *Elector) Name() string { return "election-" + escapeName(e.cfg.Name) }

// Check returns an error if work runs that should have ended: its lease has not been renewed for the term plus Tolerance, or
// it was told to stop longer ago than that. A replica that does not lead is healthy, also while etcd
// cannot be reached, so that an outage does not restart all of them; for that see [Elector.Err].
//
// It answers from memory, at once, also when every other goroutine of the elector is stuck. The request is not
// looked at and may be nil.
func (e *Elector) Check(*http.Request) error {
	r := e.reign.Load()
	if r == nil {
		return nil
	}
	return r.check(r.session.clk.Now())
}

func (r *reign) check(now clock.Instant) error {
	cfg := &r.elector.cfg
	if ended := clock.Instant(r.ended.Load()); ended != notYet {
		if late := now.Sub(ended.Add(r.session.granted + cfg.Tolerance)); late > 0 {
			return fmt.Errorf("leasehold: election %q: the work with token %s still runs %v after it was to stop: %w",
				cfg.Name, r.l.Token(), now.Sub(ended), context.Cause(r.ctx))
		}
	}
	if r.session.Valid() {
		return nil
	}
	// The expiry leaves the margin unused: with it, the term is over.
	over := clock.Instant(r.expiry.Load()).Add(r.elector.client.cfg.Margin)
	if now.After(over.Add(cfg.Tolerance)) {
		return fmt.Errorf("leasehold: election %q: the work with token %s still runs %v after its lease ran out: %w",
			cfg.Name, r.l.Token(), now.Sub(over), r.session.Err())
	}
	return nil
}
