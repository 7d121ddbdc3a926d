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
				// It cannot be told from a cluster that has passed the mark; the next answer shows it again.
				{false, clusterA, 12, 2, ok, ok},
				{false, clusterA, 4, 0, refused, suspect},
				{false, clusterA, 11, 0, refused, suspect},
				{false, clusterA, 12, 0, ok, ok},
			},
		},
		{"replaced", []heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 2, 0, refused, suspect}, {false, clusterB, 3, 0, refused, suspect}}},
		{
			"replaced by one that is further", // the sessions of before end all the same
			[]heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 20, 0, refused, ok}, {false, clusterB, 20, 0, ok, ok}},
		},
		{
			"replaced, until it has passed the mark",
			[]heard{{false, clusterA, 9, 0, ok, ok}, {false, clusterB, 2, 0, refused, suspect}, {false, clusterB, 10, 0, refused, ok}, {false, clusterB, 10, 0, ok, ok}},
		},
		{"a stream that lags", []heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterA, 3, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}}},
		{"a stream of another cluster", []heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterB, 30, 0, refused, suspect}}},
		{"a stream that is ahead moves nothing", []heard{{true, clusterA, 30, 0, ok, ok}, {false, clusterA, 9, 0, ok, ok}}},
		{"a stream answers first", []heard{{true, clusterA, 1, 0, ok, ok}, {false, clusterB, 9, 0, refused, ok}}},
		{
			"a stream of another cluster, then the old one again",
			[]heard{{false, clusterA, 9, 0, ok, ok}, {true, clusterB, 1, 0, refused, suspect}, {false, clusterA, 9, 0, ok, ok}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := &mark{}
			floors := []int64{m.floor()}
			for i, a := range tc.answers {
				var err error
				if h := header(a.cluster, a.rev); a.stream {
					err = m.stream(h)
				} else {
					err = m.linearizable(h, floors[i-a.asked])
				}
				floors = append(floors, m.floor())
				if a.refused != errors.Is(err, ErrRolledBack) || (err != nil) != a.refused {
					t.Fatalf("answer %d, %+v: %v", i, a, err)
				}
				if m.suspect() != a.suspect {
					t.Fatalf("answer %d, %+v: suspect = %v", i, a, m.suspect())
				}
				if floors[i+1] < floors[i] {
					t.Fatalf("answer %d, %+v: the mark fell from %d to %d", i, a, floors[i], floors[i+1])
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
				floor := m.floor()
				rev := store.Load()
				if rng.IntN(2) == 0 {
					rev = store.Add(1)
				}
				if err := m.linearizable(header(clusterA, rev), floor); err != nil {
					t.Errorf("revision %d, sent at floor %d: %v", rev, floor, err)
					return
				}
				if err := m.stream(header(clusterA, rng.Int64N(rev))); err != nil {
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
