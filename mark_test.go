// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// The clusters of these tests.
const clusterA, clusterB = 0xa, 0xb

func header(cluster uint64, rev int64) *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: cluster, Revision: rev}
}

// An answer of the tables below. Asked is the number of the answer before which its request was sent: 0 means right before
// itself, 1 means one answer earlier, and so on. Stream answers are those of keepalives and watches.
type heard struct {
	stream  bool
	cluster uint64
	rev     int64
	asked   int
	refused bool // ErrRolledBack is what it must be judged as
	suspect bool // what the mark must think afterwards
}

func TestMark_JudgesAnswers(t *testing.T) {
	const (
		ok      = false
		refused = true
		suspect = true
	)
	for _, tc := range []struct {
		name    string
		answers []heard
	}{
		{"rising", []heard{{false, clusterA, 5, 0, ok, ok}, {false, clusterA, 5, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}}},
		{"a read at the same revision", []heard{{false, clusterA, 5, 0, ok, ok}, {false, clusterA, 5, 0, ok, ok}}},
		{"overtaken by another answer", []heard{{false, clusterA, 5, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}, {false, clusterA, 7, 1, ok, ok}}},
		{
			"overtaken, but older than when it was sent",
			[]heard{{false, clusterA, 5, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}, {false, clusterA, 4, 1, refused, suspect}},
		},
		{"rolled back", []heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterA, 8, 0, refused, suspect}}},
		{
			"rolled back, until it has passed the mark",
			[]heard{
				{false, clusterA, 9, 0, ok, ok},
				{false, clusterA, 3, 0, refused, suspect},
				{false, clusterA, 8, 0, refused, suspect},
				{false, clusterA, 9, 0, ok, ok}, // the next token is above all that were handed out before
				{false, clusterA, 10, 0, ok, ok},
				{false, clusterA, 8, 0, refused, suspect},
			},
		},
		{
			"rolled back twice",
			[]heard{
				{false, clusterA, 9, 0, ok, ok},
				{false, clusterA, 3, 0, refused, suspect},
				{false, clusterA, 10, 0, ok, ok},
				{false, clusterA, 4, 0, refused, suspect},
				{false, clusterA, 9, 0, refused, suspect},
				{false, clusterA, 10, 0, ok, ok},
			},
		},
		{
			"an answer from before the rollback arrives late",
			[]heard{
				{false, clusterA, 9, 0, ok, ok},
				{false, clusterA, 3, 0, refused, suspect},
				{false, clusterA, 12, 2, refused, suspect}, // not from a cluster that has passed the mark
				{false, clusterA, 8, 0, refused, suspect},
				{false, clusterA, 9, 0, ok, ok},
				{false, clusterA, 13, 4, refused, ok}, // nor does it raise the mark
				{false, clusterA, 9, 0, ok, ok},
			},
		},
		{"replaced", []heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 2, 0, refused, suspect}, {false, clusterB, 3, 0, refused, suspect}}},
		{
			"replaced by one that is further", // the sessions of before end all the same
			[]heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 20, 0, refused, ok}, {false, clusterB, 20, 0, ok, ok}},
		},
		{
			"replaced, until it has passed the mark",
			// It is one change, which was revealed by the first answer: what is opened at the third goes on.
			[]heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 2, 0, refused, suspect}, {false, clusterB, 10, 0, ok, ok}, {false, clusterB, 10, 0, ok, ok}},
		},
		{
			"replaced, and answers of before arrive late",
			[]heard{
				{false, clusterA, 9, 0, ok, ok},
				{false, clusterB, 2, 0, refused, suspect},
				{false, clusterB, 9, 0, ok, ok},
				{false, clusterA, 9, 2, refused, ok}, // of the old cluster, sent before the change was known
				{true, clusterA, 9, 0, refused, ok},
				{false, clusterB, 3, 3, refused, ok}, // of the new one, sent while it was behind
				{false, clusterB, 11, 4, ok, ok},     // the same, but it has come as far
				{false, clusterB, 11, 0, ok, ok},
				{false, clusterA, 10, 0, refused, suspect}, // the old one is back: a request of now shows it
			},
		},
		{"a stream that lags", []heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterA, 3, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}}},
		{"a stream of another cluster", []heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterB, 30, 0, refused, suspect}}},
		{"what a stream tells has happened", []heard{{true, clusterA, 30, 0, ok, ok}, {false, clusterA, 9, 0, refused, suspect}}},
		{"a stream is ahead of what is under way", []heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterA, 30, 0, ok, ok}, {false, clusterA, 29, 1, ok, ok}}},
		{"a stream answers first", []heard{{true, clusterA, 1, 0, ok, ok}, {false, clusterB, 9, 0, refused, ok}}},
		{
			"a stream of another cluster, then the old one again",
			[]heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterB, 1, 0, refused, suspect}, {false, clusterA, 9, 0, ok, ok}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &mark{}
			stamps := []stamp{m.stamp()}
			for i, a := range tc.answers {
				var err error
				if h := header(a.cluster, a.rev); a.stream {
					_, _, err = m.stream(h)
				} else {
					_, err = m.linearizable(h, stamps[i-a.asked])
				}
				stamps = append(stamps, m.stamp())
				if a.refused != errors.Is(err, ErrRolledBack) || (err != nil) != a.refused {
					t.Fatalf("answer %d, %+v: %v", i, a, err)
				}
				if m.suspect() != a.suspect {
					t.Fatalf("answer %d, %+v: suspect = %v", i, a, m.suspect())
				}
				if now, before := stamps[i+1].floor, stamps[i].floor; now < before {
					t.Fatalf("answer %d, %+v: the mark fell from %d to %d", i, a, before, now)
				}
			}
		})
	}
}

// Answers of one cluster that only moves forward are all believed, however they overtake each other.
func TestMark_BelievesConcurrentAnswersOfAHealthyCluster(t *testing.T) {
	m := &mark{}
	var store atomic.Int64
	store.Store(1)
	var wg sync.WaitGroup
	for i := range 8 {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		wg.Go(func() {
			for range 2000 {
				sent := m.stamp()
				rev := store.Load()
				if rng.IntN(2) == 0 {
					rev = store.Add(1)
				}
				if _, err := m.linearizable(header(clusterA, rev), sent); err != nil {
					t.Errorf("revision %d, sent at %+v: %v", rev, sent, err)
					return
				}
				if _, _, err := m.stream(header(clusterA, rng.Int64N(rev))); err != nil {
					t.Errorf("a stream that lags: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if m.suspect() || m.floor() > store.Load() {
		t.Errorf("suspect %v, mark %d with the store at %d", m.suspect(), m.floor(), store.Load())
	}
}
