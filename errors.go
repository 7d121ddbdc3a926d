// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"fmt"
)

// What callers branch on. Every error of this package that one of them describes matches it with [errors.Is];
// the cause of a context that belongs to a lost session or grant ([context.Cause]) is always one of them. The error of a call
// whose context has ended matches both that context's Err and its cause.
var (
	// ErrExpired reports that the local expiry of the lease passed before a renewal was answered. The key may
	// still exist at the grantor; the holder must have stopped all the same.
	ErrExpired = errors.New("leasehold: the lease's local expiry has passed")

	// ErrRevoked reports that the grantor's side was taken away: the lease was revoked or is unknown to it, or
	// the key was deleted or overwritten by somebody else. A waiter whose key goes gets it too.
	ErrRevoked = errors.New("leasehold: the lease was revoked or the key was taken away")

	// ErrReleased reports the use of a grant that its holder gave back.
	ErrReleased = errors.New("leasehold: the grant was released")

	// ErrClosed reports the use of a session or client that was closed or abandoned, or whose etcd client was
	// closed.
	ErrClosed = errors.New("leasehold: closed")

	// ErrRolledBack reports that the etcd cluster went back in time or was replaced by another one, so that
	// tokens handed out before are no longer older than those to come.
	ErrRolledBack = errors.New("leasehold: the etcd cluster was rolled back or replaced")

	// ErrLocked reports that the name is held or waited for by somebody else. See [LockedError].
	ErrLocked = errors.New("leasehold: the name is locked")

	// ErrNoLeader reports that nobody leads the election.
	ErrNoLeader = errors.New("leasehold: nobody leads")

	// ErrNotLeader reports the use of a leadership that has ended. The error that matches it also matches the
	// reason for the end.
	ErrNotLeader = errors.New("leasehold: not the leader")

	// ErrStaleToken reports a token below the highest that the resource has seen. See [StaleTokenError].
	ErrStaleToken = errors.New("leasehold: stale fencing token")

	// ErrUnknownOutcome reports that a request may or may not have been applied, or may be yet.
	ErrUnknownOutcome = errors.New("leasehold: outcome unknown")

	// ErrInvalidConfig reports a [Config] with values out of bounds, or a value or a holder of a key that is too long; the message
	// lists every one.
	ErrInvalidConfig = errors.New("leasehold: invalid config")

	// ErrInvalidName reports a name that is empty, longer than 1,024 bytes or not valid UTF-8. Any other is valid: slashes and
	// control characters are escaped in the key.
	ErrInvalidName = errors.New("leasehold: invalid name")
)

// LockedError says who holds the name that a [Session.TryLock] asked for. It matches [ErrLocked].
type LockedError struct {
	// Name is the name as the caller gave it.
	Name string
	// Holder is the value of the holder's key: "host:pid" by default, the proclaimed value of a leader.
	Holder string
	// Token is the fencing token of the holder's grant.
	Token Token
}

// Error names the name, its holder and the holder's token.
func (e *LockedError) Error() string {
	by := "somebody" // a concurrency.Mutex leaves its value empty
	if e.Holder != "" {
		by = quoteBounded(e.Holder)
	}
	return fmt.Sprintf("leasehold: %s is locked by %s with token %s", quoteBounded(e.Name), by, e.Token)
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// StaleTokenError says that a token was refused because a resource has seen a higher one, or because it is not positive and so
// belongs to no grant. It matches [ErrStaleToken].
type StaleTokenError struct {
	// Resource names what was written to.
	Resource string
	// Token is the token that was refused.
	Token Token
	// Highest is the highest token that the resource has accepted, 0 if none.
	Highest Token
}

// Error names the token, the resource and what it has seen.
func (e *StaleTokenError) Error() string {
	if e.Token <= 0 {
		return fmt.Sprintf("leasehold: token %s for resource %q: want a grant's, 1 or more", e.Token, e.Resource)
	}
	return fmt.Sprintf("leasehold: stale token %s for resource %q, which has seen %s", e.Token, e.Resource, e.Highest)
}

// Is reports whether target is [ErrStaleToken].
func (e *StaleTokenError) Is(target error) bool { return target == ErrStaleToken }
