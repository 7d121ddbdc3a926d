// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// Token is a fencing token: the create revision of a grant's key in etcd (R8). The tokens of one name strictly
// increase along its holders, and no two of its grants share one. Tokens of different names can be equal, and say nothing
// about each other. The zero Token belongs to no grant.
//
// A token guards a resource only if the resource compares it: it remembers the highest token that it has seen and
// refuses a lower one ([Fence] in memory; the packages under fence/ for databases, HTTP and others). The comparison
// is what makes a late write impossible; the expiry of a lease only makes it improbable (R13).
type Token int64

// String returns the token in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken is the inverse of [Token.String]. It accepts the canonical decimal form of a positive token only: no
// sign, no leading zeros, no spaces.
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if t := Token(n); err == nil && n > 0 && t.String() == s {
		return t, nil
	}
	// The input may be huge or hostile, and strconv's error quotes it: report a bounded piece of it.
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("leasehold: parse token %s: %w", quoteBounded(s), strconv.ErrRange)
	}
	return 0, fmt.Errorf("leasehold: parse token %s: want a positive decimal number without sign or leading zeros", quoteBounded(s))
}

func quoteBounded(s string) string {
	const limit = 64
	if len(s) <= limit {
		return strconv.Quote(s)
	}
	return strconv.Quote(s[:limit]) + fmt.Sprintf("... (%d bytes)", len(s))
}

// Fence is an in-memory high-water mark by resource: the check that a resource living in one process makes before
// it accepts a write. The zero value is ready for use. A Fence is safe for concurrent use and must not be copied.
//
// The check and the write that it admits must be one step for the resource: make both under one lock, or keep the
// mark where the data is. The marks are lost with the process; a resource that outlives its process keeps the mark
// with its data instead.
type Fence struct {
	mu    sync.Mutex
	marks map[string]Token // the highest token accepted, by resource; values only rise
}

// Check admits t for resource and raises the mark to it, or returns a [*StaleTokenError] if a higher token was
// admitted before. An equal token passes: one holder writes many times. A token that is not positive belongs to no
// grant; it is refused with an error that matches [ErrStaleToken] too, and so that a forgotten token never passes.
func (f *Fence) Check(resource string, t Token) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	highest := f.marks[resource]
	if t <= 0 || t < highest {
		return &StaleTokenError{Resource: resource, Token: t, Highest: highest}
	}
	if f.marks == nil {
		f.marks = make(map[string]Token)
	}
	f.marks[resource] = t
	return nil
}
