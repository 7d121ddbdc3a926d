// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A deletion goes along with a put of its line, and before it. But etcd makes all comparisons before the first change: who compares the
// whole line with nothing would be refused for a key that goes in the same transaction.
func TestCommitter_ADeletionSharesWithAPutOfItsLineButNotWithALookAtIt(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		send := func(key string, frees, whole bool) {
			d.send(key, &write{
				line: "l", frees: frees, whole: whole, size: 100,
				then:   []clientv3.Op{clientv3.OpPut(key, "v")},
				wanted: func() bool { return true },
			})
		}
		d.submit("x", "x")
		send("free1", true, false)
		send("look", false, true)
		send("put", false, false)
		send("free2", true, false)
		for i := range 3 {
			d.answer(i, int64(10+i))
		}
		d.wantFlights("x | free1 free2 put | look")
	})
}
