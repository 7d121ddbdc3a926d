// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"example.com/leasehold"
)

// MaxResourceBytes is the greatest length of a resource's name.
const MaxResourceBytes = 1024

var (
	// ErrInvalidResource reports the name of a resource that is empty, longer than [MaxResourceBytes], not valid UTF-8
	// or has a NUL byte in it. Nothing was sent or changed.
	ErrInvalidResource = errors.New("fence: invalid resource name")

	// ErrInvalidToken reports a token that is not positive and so belongs to no grant. The error that matches it also
	// matches [leasehold.ErrStaleToken], so that a forgotten token is handled as a refused one. Nothing was sent or
	// changed.
	ErrInvalidToken = errors.New("fence: invalid token")

	// ErrNoGrant reports a context without a grant where one is needed. See [leasehold.NewContext].
	ErrNoGrant = errors.New("fence: no grant in the context: want that of Do, of Grant.Context or of leasehold.NewContext")

	// ErrConflict reports that the resource could not decide because another write was in the way: a serialization
	// failure, a deadlock, a conditional write that lost too often. Nothing was changed, and the token may still be good:
	// make the whole write again, from its first read.
	ErrConflict = errors.New("fence: conflicting write, try again")
)

// Write is what every fenced write carries. Middleware puts the one that it admitted into the context of the handler;
// see [WriteFrom].
type Write struct {
	// Resource names what is written to.
	Resource string
	// Token is the fencing token of the writer's grant.
	Token leasehold.Token
}

// Validate returns nil, or an error that matches [ErrInvalidResource] or [ErrInvalidToken]. Every adapter calls it first.
func (w Write) Validate() error {
	if err := validateResource(w.Resource); err != nil {
		return err
	}
	if w.Token <= 0 {
		stale := &leasehold.StaleTokenError{Resource: w.Resource, Token: w.Token}
		return fmt.Errorf("%w: %w", ErrInvalidToken, stale)
	}
	return nil
}

func validateResource(resource string) error {
	switch {
	case resource == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidResource)
	case len(resource) > MaxResourceBytes:
		return fmt.Errorf("%w: %q... has %d bytes, want at most %d", ErrInvalidResource, resource[:32], len(resource), MaxResourceBytes)
	case !utf8.ValidString(resource):
		return fmt.Errorf("%w: %q is not valid UTF-8", ErrInvalidResource, resource)
	case strings.ContainsRune(resource, 0):
		// Text columns and C strings end there: two names could become one.
		return fmt.Errorf("%w: %q has a NUL byte", ErrInvalidResource, resource)
	}
	return nil
}

// TokenFrom returns the token of the grant in ctx, for the side that holds it. Without a grant it returns [ErrNoGrant];
// with one that is not valid any more it returns the reason, so that a holder that knows that it is late sends nothing.
func TokenFrom(ctx context.Context) (leasehold.Token, error) {
	grant, ok := leasehold.FromContext(ctx)
	if !ok || grant == nil {
		return 0, ErrNoGrant
	}
	return tokenOf(grant)
}

// tokenOf asks the holder once more at the moment of use (R4).
func tokenOf(grant interface {
	Token() leasehold.Token
	Valid() bool
	Err() error
},
) (leasehold.Token, error) {
	if !grant.Valid() {
		reason := grant.Err()
		if reason == nil {
			reason = leasehold.ErrExpired
		}
		return 0, fmt.Errorf("fence: not sent, the grant is not valid any more: %w", reason)
	}
	return grant.Token(), nil
}

type writeKey struct{}

// NewContext returns a context that carries w as admitted. Middleware calls it; handlers read it with [WriteFrom].
func NewContext(ctx context.Context, w Write) context.Context {
	return context.WithValue(ctx, writeKey{}, w)
}

// WriteFrom returns the write that middleware admitted, for a handler that checks the token once more where its data
// is, in its own transaction.
func WriteFrom(ctx context.Context) (Write, bool) {
	w, ok := ctx.Value(writeKey{}).(Write)
	return w, ok
}
