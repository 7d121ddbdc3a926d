// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"sync"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A mark is what one etcd client has seen of its cluster: which one it is, and how far its store had come. It
// outlives the sessions, so that a cluster that goes back in time cannot hand a smaller token to a new session
// (scenario: restore from a snapshot under live clients).
//
// Answers to concurrent requests overtake each other, so an answer is held against the mark as it stood when its
// request was sent, never against the present one. Only answers that went through the leader count (Txn, Get): the
// headers of keepalives and watches carry the revision of the member asked, which may lag.
type mark struct {
	mu sync.Mutex
	// cluster is the id of the cluster whose answers are believed; 0 until the first answer.
	cluster uint64
	// highest is the highest revision in a linearizable answer. It never falls.
	highest int64
	// behind is set while the cluster is known to be another one or to have gone back, until it has passed highest.
	behind bool
	// rumour is another cluster's id in an answer that set behind: its next answer reveals nothing new.
	rumour uint64
}

// floor is what the answer to a request sent now must reach.
func (m *mark) floor() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.highest
}

// linearizable judges the header of a linearizable answer whose request was sent when the floor was floor. It
// returns ErrRolledBack if the answer shows another cluster or an earlier time than was seen, and from then on until the
// store has come to the highest revision ever seen: only then are the tokens to come larger than all those before.
func (m *mark) linearizable(h *pb.ResponseHeader, floor int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cluster == 0 {
		m.cluster = h.GetClusterId()
	}
	rev := h.GetRevision()
	other := h.GetClusterId() != m.cluster && h.GetClusterId() != m.rumour
	if revealed := other || rev < floor; revealed || m.behind {
		// Even an answer above the mark ends the sessions of before if it is the one that reveals the change.
		m.behind = rev < m.highest // at the mark, the next revision is above it
		if !m.behind {
			m.cluster, m.highest, m.rumour = h.GetClusterId(), rev, 0
		}
		if revealed || m.behind {
			return ErrRolledBack
		}
		return nil
	}
	m.highest = max(m.highest, rev)
	return nil
}

// stream judges the header of any other answer: it may lag, but it must come from the same cluster.
func (m *mark) stream(h *pb.ResponseHeader) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch m.cluster {
	case h.GetClusterId():
	case 0:
		m.cluster = h.GetClusterId()
	default:
		m.behind, m.rumour = true, h.GetClusterId()
		return ErrRolledBack
	}
	return nil
}

// suspect reports whether new sessions and acquires must first see the store pass the mark.
func (m *mark) suspect() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.behind
}
