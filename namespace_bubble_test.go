// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"testing"
	"time"

	"go.etcd.io/etcd/client/v3/namespace"

	"example.com/leasehold/internal/etcdfake"
)

// With a prefix that does not end in a slash, a key can be the end of another of its session, and the namespace of the etcd client can
// end like the prefix begins. Whose key is taken is told all the same.
func TestNamespace_KeysThatEndAlikeAreToldApart(t *testing.T) {
	for _, space := range []string{"", "other/", "their/jobs"} {
		t.Run(space, func(t *testing.T) {
			bubble(t, etcdfake.Options{}, func(r *rig) {
				r.client.KV = namespace.NewKV(r.client.KV, space)
				s := r.open(Config{Prefix: "jobs"})
				var grants []*Grant
				for _, name := range []string{"s", "myjobss", "jobss", "other"} {
					grants = append(grants, r.lock(s, name))
				}
				time.Sleep(2 * time.Second) // they are under watch now
				for _, g := range grants {
					if _, err := r.cluster.Delete(space + g.Key()); err != nil {
						t.Fatal(err)
					}
					r.quiet()
					if !errors.Is(g.Err(), ErrRevoked) {
						t.Errorf("%v: %v, want ErrRevoked", g, g.Err())
					}
				}
			})
		})
	}
}
