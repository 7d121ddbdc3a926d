// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"example.com/leasehold/cmd/leasehold/internal/lines"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDescribe_CountsOthersOnly(t *testing.T) {
	const own = clientv3.LeaseID(9)
	holder := lines.Place{Holder: "host:1", Token: 4, Lease: 1}
	waiter, self, bare := lines.Place{Lease: 2}, lines.Place{Lease: own}, lines.Place{}
	for _, tt := range []struct {
		places []lines.Place
		own    clientv3.LeaseID
		want   string
	}{
		{nil, own, "nobody holds it"},
		{[]lines.Place{self}, own, "nobody holds it"},
		{[]lines.Place{holder, self}, own, "held by host:1 (token 4)"},
		{[]lines.Place{holder, self, waiter}, own, "held by host:1 (token 4), 1 other waits"},
		{[]lines.Place{holder, waiter, self, bare}, own, "held by host:1 (token 4), 2 others wait"},
		{[]lines.Place{holder, bare}, 0, "held by host:1 (token 4), 1 other waits"}, // before there is a session
	} {
		if got := describe(lines.Line{Places: tt.places}, tt.own); got != tt.want {
			t.Errorf("%v without %d: %q, want %q", tt.places, tt.own, got, tt.want)
		}
	}
}
