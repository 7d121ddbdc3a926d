// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// ContentType is that of the answers of the middleware: a problem document (RFC 9457).
const ContentType = "application/problem+json"

// The types of problems, with the status of each.
const (
	typeBase            = "https://example.com/leasehold/problems/"
	TypeStaleToken      = typeBase + "stale-token"      // 412 Precondition Failed
	TypeMissingToken    = typeBase + "missing-token"    // 428 Precondition Required
	TypeMalformedToken  = typeBase + "malformed-token"  // 400 Bad Request
	TypeInvalidResource = typeBase + "invalid-resource" // 400 Bad Request
	TypeConflict        = typeBase + "conflict"         // 409 Conflict: nothing was changed, try again
	TypeUnavailable     = typeBase + "unavailable"      // 503 Service Unavailable: the outcome is unknown
)

// Problem is a problem document. A request refused for its token has the last three members; the tokens are strings,
// because JSON's numbers lose digits on the way through many readers.
type Problem struct {
	Type     string `json:"type"`               // one of the Type constants
	Title    string `json:"title"`              // the same for all problems of the type
	Status   int    `json:"status"`             // the HTTP status
	Detail   string `json:"detail,omitempty"`   // of this request, for people
	Resource string `json:"resource,omitempty"` // what was to be written
	Token    string `json:"token,omitempty"`    // that was refused, in decimal
	Highest  string `json:"highest,omitempty"`  // that the resource has accepted, in decimal
}

// problemOf returns the answer to a request that failed with err. What the store said about its own trouble stays out of it.
func problemOf(err error) Problem {
	var stale *leasehold.StaleTokenError
	switch {
	case errors.Is(err, ErrMissingToken):
		return Problem{Type: TypeMissingToken, Title: "Fencing token required", Status: http.StatusPreconditionRequired, Detail: err.Error()}
	case errors.Is(err, ErrMalformedToken), errors.Is(err, fence.ErrInvalidToken):
		return Problem{Type: TypeMalformedToken, Title: "Malformed fencing token", Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.Is(err, fence.ErrInvalidResource):
		return Problem{Type: TypeInvalidResource, Title: "Invalid resource name", Status: http.StatusBadRequest, Detail: err.Error()}
	case errors.As(err, &stale):
		return Problem{
			Type: TypeStaleToken, Title: "Stale fencing token", Status: http.StatusPreconditionFailed, Detail: stale.Error(),
			Resource: stale.Resource, Token: stale.Token.String(), Highest: stale.Highest.String(),
		}
	case errors.Is(err, fence.ErrConflict):
		return Problem{Type: TypeConflict, Title: "Conflicting write", Status: http.StatusConflict, Detail: "Nothing was changed; try again."}
	}
	return Problem{Type: TypeUnavailable, Title: "Fence unavailable", Status: http.StatusServiceUnavailable, Detail: "The outcome is unknown."}
}

// write sends the problem as the whole answer.
func (p Problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil {
		http.Error(w, p.Title, p.Status)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client is gone: nobody is left to tell
}

// CheckResponse returns the error that a problem document of the middleware stands for: a [*leasehold.StaleTokenError], or
// one that matches [fence.ErrConflict], [fence.ErrInvalidResource], [ErrMissingToken] or [ErrMalformedToken], or, for a
// problem that leaves the outcome unknown, another. It returns nil for every other response, whatever its status, and
// leaves its body unread; that of a problem it reads, the caller closes it all the same.
func CheckResponse(response *http.Response) error {
	if response.Header.Get("Content-Type") != ContentType {
		return nil
	}
	const limit = 64 << 10
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err != nil {
		return fmt.Errorf("httpfence: read a problem document of status %d: %w", response.StatusCode, err)
	}
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("httpfence: problem document of status %d: %w", response.StatusCode, err)
	}
	switch p.Type {
	case TypeStaleToken:
		return p.stale()
	case TypeMissingToken:
		return fmt.Errorf("%w: the server wants one", ErrMissingToken)
	case TypeMalformedToken:
		return fmt.Errorf("%w: the server says: %.200s", ErrMalformedToken, p.Detail)
	case TypeInvalidResource:
		return fmt.Errorf("%w: the server says: %.200s", fence.ErrInvalidResource, p.Detail)
	case TypeConflict:
		return fmt.Errorf("%w: the server says so", fence.ErrConflict)
	case TypeUnavailable:
		return fmt.Errorf("httpfence: the server's fence is unavailable, outcome unknown (status %d)", response.StatusCode)
	}
	return nil // somebody else's problem
}

func (p Problem) stale() error {
	token, err := leasehold.ParseToken(p.Token)
	if err != nil {
		return fmt.Errorf("httpfence: problem document: %w: %w", leasehold.ErrStaleToken, err)
	}
	highest, err := leasehold.ParseToken(p.Highest)
	if err != nil {
		return fmt.Errorf("httpfence: problem document: %w: %w", leasehold.ErrStaleToken, err)
	}
	return &leasehold.StaleTokenError{Resource: p.Resource, Token: token, Highest: highest}
}
