// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"example.com/leasehold/internal/etcdfake"
)

// An outage is told when it begins, and not again with each of the many tries that it costs.
func TestJournal_TellsOfATroubleOnce(t *testing.T) {
	for name, cut := range map[string]func(r *rig){
		"silent": func(r *rig) { r.hold(true, true) },
		"refused": func(r *rig) {
			for i := range r.cluster.Size() {
				r.cluster.Link(r.client, i).Refuse()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, etcdfake.Options{Members: 3}, func(r *rig) {
				core, logs := observer.New(zap.InfoLevel)
				s := r.open(Config{TTL: time.Minute, Logger: zap.New(core)})
				r.lock(s, "name")
				time.Sleep(2 * s.TTL())
				r.quiet()
				logs.TakeAll()
				cut(r)
				r.ended("the session", s.Done(), 2*s.TTL())
				r.quiet()
				said := make(map[string]int)
				for _, e := range logs.All() {
					said[e.Message]++
				}
				for message, n := range said {
					if n > 2 { // each kind of stream may tell
						r.Errorf("%d times: %s", n, message)
					}
				}
				if said["leasehold: session lost"] != 1 {
					r.Errorf("the loss was told %d times; all: %v", said["leasehold: session lost"], said)
				}
			})
		})
	}
}
