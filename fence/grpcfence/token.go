// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"fmt"
	"strconv"

	"google.golang.org/grpc/metadata"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Key is the metadata key that carries a token. Its value is the token in decimal: a positive number below 2^63, without
// sign, leading zeros, spaces or anything else. A call has exactly one such value.
const Key = "leasehold-token"

// What is wrong with a call's token. Both match [fence.ErrInvalidToken] and [leasehold.ErrStaleToken] as well: whatever is
// not a token is refused as one that is too old.
var (
	// ErrMissingToken reports a call without a token.
	ErrMissingToken error = &tokenError{"grpcfence: no " + Key + " in the metadata"}

	// ErrMalformedToken reports a call whose token cannot be read: not a token, or more than one value.
	ErrMalformedToken error = &tokenError{"grpcfence: malformed " + Key + " in the metadata"}
)

type tokenError struct{ text string }

func (e *tokenError) Error() string { return e.text }

func (e *tokenError) Is(target error) bool {
	return target == fence.ErrInvalidToken || target == leasehold.ErrStaleToken
}

// WithToken returns a context whose calls carry token, for who holds only a token. With a grant in the context, use the
// client interceptors.
func WithToken(ctx context.Context, token leasehold.Token) context.Context {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	md.Set(Key, token.String())
	return metadata.NewOutgoingContext(ctx, md)
}

// TokenFromIncoming reads the token of a call at the server. It returns [ErrMissingToken] or [ErrMalformedToken].
func TokenFromIncoming(ctx context.Context) (leasehold.Token, error) {
	values := metadata.ValueFromIncomingContext(ctx, Key)
	switch {
	case len(values) == 0:
		return 0, ErrMissingToken
	case len(values) > 1:
		return 0, fmt.Errorf("%w: %d of them, want one", ErrMalformedToken, len(values))
	}
	const longest = len("9223372036854775807")
	if len(values[0]) > longest {
		return 0, fmt.Errorf("%w: %d bytes, want at most %d digits", ErrMalformedToken, len(values[0]), longest)
	}
	token, err := leasehold.ParseToken(values[0])
	if err != nil {
		return 0, fmt.Errorf("%w: %s", ErrMalformedToken, strconv.Quote(values[0]))
	}
	return token, nil
}
