// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A mark is what one etcd client has seen of its cluster: which one it is, and how far its store had come. It
// outlives the sessions, so that a cluster that goes back in time cannot hand a smaller token to a new session
// (scenario: restore from a snapshot under live clients).
//
// Answers to concurrent requests overtake each other, so an answer is held against the mark as it stood when its
// request was sent (its stamp), never against the present one. Only answers that went through the leader are held against it (Txn,
// Get): the headers of keepalives and watches carry the revision of the member asked, which may lag. But all of them raise it: what
// a member tells has happened.
//
// A change is revealed once, and everything of before ends. What was under way then is answered by whichever cluster it met: it is
// not believed, and it reveals nothing new, so that what was opened since does not end for a change of before.
type mark struct {
	mu sync.Mutex
	// cluster is the id of the cluster whose answers are believed; 0 until the first answer.
	cluster uint64
	// highest is the highest revision in any answer. It never falls while the cluster stays the same.
	highest int64
	// behind is set while the cluster is known to be another one or to have gone back, until it has passed highest.
	behind bool
	// rumour is another cluster's id in an answer that set behind: its next answer reveals nothing new.
	rumour uint64
	// former is the cluster that was left for the present one. An answer of it on a stream may have been under way since; that it is
	// back, only a linearizable answer shows.
	former uint64
	// changes counts what was revealed.
	changes int
}

// A stamp is the mark as it stood when a request was sent.
type stamp struct {
	floor   int64 // what the answer must reach
	behind  bool
	changes int
}

func (m *mark) stamp() stamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return stamp{m.highest, m.behind, m.changes}
}

// floor is what the answer to a request sent now must reach.
func (m *mark) floor() int64 { return m.stamp().floor }

// linearizable judges the header of a linearizable answer whose request was sent at sent. It
// returns ErrRolledBack if the answer shows another cluster or an earlier time than was seen, and from then on until the
// store has come to the highest revision ever seen: only then are the tokens to come larger than all those before.
// revealed: nobody knew that before.
func (m *mark) linearizable(h *pb.ResponseHeader, sent stamp) (revealed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cluster == 0 {
		m.cluster = h.GetClusterId()
	}
	id, rev := h.GetClusterId(), h.GetRevision()
	back := rev < sent.floor
	switch {
	case sent.changes != m.changes:
		return false, ErrRolledBack // sent before the change was known: it tells of either side
	case sent.behind && !m.behind && (id != m.cluster || back):
		return false, ErrRolledBack // sent before the present cluster, or time, was accepted
	}
	revealed = back || id != m.cluster && id != m.rumour
	if !revealed && !m.behind {
		m.highest = max(m.highest, rev)
		return false, nil
	}
	if revealed {
		m.changes++
	}
	// At the mark, the next revision is above it. Even such an answer ends the sessions of before if it reveals the change.
	if m.behind = rev < m.highest; m.behind {
		if id != m.cluster {
			m.rumour = id
		}
		return revealed, ErrRolledBack
	}
	if id != m.cluster {
		m.former = m.cluster
	}
	m.cluster, m.highest, m.rumour = id, rev, 0
	if revealed {
		return true, ErrRolledBack
	}
	return false, nil
}

// stream judges the header of any other answer: it may lag, but it must come from the same cluster. doubt: it says less than is known,
// and a linearizable answer shows whether it lags.
func (m *mark) stream(h *pb.ResponseHeader) (revealed, doubt bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, rev := h.GetClusterId(), h.GetRevision()
	switch {
	case m.cluster == 0:
		m.cluster, m.highest = id, rev
		return false, false, nil
	case id == m.cluster && m.behind:
		return false, false, nil
	case id == m.cluster:
		doubt = rev < m.highest
		m.highest = max(m.highest, rev)
		return false, doubt, nil
	case m.behind && id == m.rumour, !m.behind && id == m.former:
		return false, true, ErrRolledBack
	}
	m.behind, m.rumour = true, id
	m.changes++
	return true, false, ErrRolledBack
}

// suspect reports whether new sessions and acquires must first see the store pass the mark.
func (m *mark) suspect() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.behind
}

// linearizable judges the header of a linearizable answer whose request was sent at sent, and ends every session if it reveals
// that the cluster was replaced or went back in time.
func (e *engine) linearizable(h *pb.ResponseHeader, sent stamp) error {
	revealed, err := e.mark.linearizable(h, sent)
	if revealed {
		e.rolledBack()
	}
	if err == nil {
		e.keeper.rise(h.GetRaftTerm())
	}
	return err
}

// streamed does the same for the header of any other answer. One that is not believed and reveals nothing may be a late one, or the
// cluster that was left before is back; one of an earlier revision may be of a member that lags, or the cluster has gone back and others
// are about to make up for it. A read shows which. Without a session there is nobody to read for: see open.
func (e *engine) streamed(h *pb.ResponseHeader) error {
	revealed, doubt, err := e.mark.stream(h)
	if revealed {
		e.rolledBack()
	}
	if doubt && (err != nil || e.mayDoubt()) {
		e.lookAgain()
	}
	return err
}

// mayDoubt is true once in a while: members can lag all the time.
func (e *engine) mayDoubt() bool {
	return e.doubted.again(e.clk.Now(), min(time.Second, e.keeper.shortestTerm()/8))
}

// lookAgain reads something, for the sake of the answer's header.
func (e *engine) lookAgain() {
	s := e.keeper.anySession()
	if s == nil {
		return
	}
	e.reads.submit(&write{
		then:   []clientv3.Op{s.cfg.glance()},
		wanted: func() bool { return !s.ended() },
		done:   func(*clientv3.TxnResponse, error) {},
	})
}
