// SPDX-License-Identifier: Apache-2.0

package leasehold

// A retained session is not tidied up behind when it, or a grant of it, is lost: the lease runs out by itself, and a key
// that was overwritten stays, until letGo. For an elector, whose work may still be stopping then: to revoke the lease or
// to delete the key at once would let a successor start beside it, earlier than etcd would by itself.
//
// Belief is another matter, and ends as always.

// retain is called once, before the session has grants.
func (s *Session) retain() {
	s.engine.enter() // so that letGo can still send something
	s.retained.Store(true)
}

// letGo makes up for what was left undone. It does not wait.
func (s *Session) letGo() {
	if !s.retained.CompareAndSwap(true, false) {
		return
	}
	// A loss that happens now finds the session no longer retained, or is found here, or both: revoking twice is harmless.
	if s.ended() && s.engine.ctx.Err() == nil {
		s.engine.revokeSoon(s.id, 0, s.granted) // nobody is still stopping
	}
	s.engine.leave()
}
