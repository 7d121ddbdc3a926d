// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"fmt"
	"net/http"
	"strconv"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Header is the name of the field that carries a token. Its value is the token in decimal: a positive number below 2^63,
// without sign, leading zeros, spaces or anything else. A request has exactly one such field.
const Header = "Leasehold-Token"

// What is wrong with a request's token. Both match [fence.ErrInvalidToken] and [leasehold.ErrStaleToken] as well: whatever
// is not a token is refused as one that is too old.
var (
	// ErrMissingToken reports a request without a token.
	ErrMissingToken error = &headerError{"httpfence: no " + Header + " header"}

	// ErrMalformedToken reports a request whose token cannot be read: not a token, or more than one field.
	ErrMalformedToken error = &headerError{"httpfence: malformed " + Header + " header"}
)

type headerError struct{ text string }

func (e *headerError) Error() string { return e.text }

func (e *headerError) Is(target error) bool {
	return target == fence.ErrInvalidToken || target == leasehold.ErrStaleToken
}

// SetToken puts token into a header, for who holds only a token. With a grant in the request's context, use [Transport].
func SetToken(header http.Header, token leasehold.Token) {
	header.Set(Header, token.String())
}

// TokenFromHeader reads the token of a request. It returns [ErrMissingToken] or [ErrMalformedToken].
//
// Two fields are malformed even if they agree, and so is a list in one field, which is what a proxy makes of two: who added
// the second one cannot be told, and the next hop might have read the other.
func TokenFromHeader(header http.Header) (leasehold.Token, error) {
	values := header[Header]
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
