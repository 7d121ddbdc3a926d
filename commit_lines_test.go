// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"testing"
	"time"

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

// A deletion that finds nothing is no loss if it was sent twice and the other attempt has found the key, though its answer comes second.
func TestCommitter_AnAttemptThatSucceedsBehindTheAnswerCounts(t *testing.T) {
	onDesk(t, false, func(d *desk) {
		failed := make(chan bool, 1)
		w := &write{line: "l", frees: true, size: 10, then: []clientv3.Op{clientv3.OpDelete("k")}, wanted: func() bool { return true }}
		w.cmps = []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("k"), "=", 1)}
		w.done = func(*clientv3.TxnResponse, error) {
			d.c.mu.Lock()
			first := d.seen[0]
			d.c.mu.Unlock()
			first.reply <- deskReply{rev: 7}
			time.Sleep(time.Millisecond) // until that has landed
			failed <- d.c.failed(w)
		}
		d.c.submit(w)
		time.Sleep(300 * time.Millisecond) // it is overdue, and sent once more
		d.reply(1, deskReply{rev: 7, lost: true})
		if <-failed {
			d.Error("a deletion of which one attempt has succeeded counts as failed")
		}
	})
}
