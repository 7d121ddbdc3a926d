// SPDX-License-Identifier: Apache-2.0

package grpcfence

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Domain is the domain of the google.rpc.ErrorInfo in the details of a refusal.
const Domain = "leasehold.example.com"

// The reasons in that ErrorInfo, with the code of each.
const (
	ReasonStaleToken      = "STALE_TOKEN"      // FailedPrecondition; metadata: resource, token, highest
	ReasonMissingToken    = "MISSING_TOKEN"    // FailedPrecondition
	ReasonMalformedToken  = "MALFORMED_TOKEN"  // InvalidArgument
	ReasonInvalidResource = "INVALID_RESOURCE" // InvalidArgument
	ReasonConflict        = "CONFLICT"         // Aborted: nothing was changed, try again
	ReasonUnavailable     = "UNAVAILABLE"      // Unavailable: the token could not be checked
	ReasonOutcomeUnknown  = "OUTCOME_UNKNOWN"  // Unknown: the write was made and perhaps not kept
)

// statusOf returns what a call that failed with err is answered; fallback is the reason for errors that are not the
// fence's own. What the store said about its own trouble stays out of it.
func statusOf(err error, fallback string) error {
	var stale *leasehold.StaleTokenError
	switch {
	case errors.Is(err, ErrMissingToken):
		return newStatus(codes.FailedPrecondition, err.Error(), ReasonMissingToken, nil)
	case errors.Is(err, ErrMalformedToken), errors.Is(err, fence.ErrInvalidToken):
		return newStatus(codes.InvalidArgument, err.Error(), ReasonMalformedToken, nil)
	case errors.Is(err, fence.ErrInvalidResource):
		return newStatus(codes.InvalidArgument, err.Error(), ReasonInvalidResource, nil)
	case errors.As(err, &stale):
		return newStatus(codes.FailedPrecondition, stale.Error(), ReasonStaleToken, map[string]string{
			"resource": stale.Resource, "token": stale.Token.String(), "highest": stale.Highest.String(),
		})
	case errors.Is(err, fence.ErrConflict):
		return newStatus(codes.Aborted, "conflicting write: nothing was changed, try again", ReasonConflict, nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	case fallback == ReasonUnavailable:
		return newStatus(codes.Unavailable, "the token could not be checked", fallback, nil)
	}
	return newStatus(codes.Unknown, "the outcome of the write is unknown", fallback, nil)
}

func newStatus(code codes.Code, message, reason string, data map[string]string) error {
	plain := status.New(code, message)
	detailed, err := plain.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: Domain, Metadata: data})
	if err != nil {
		return plain.Err() // the details cannot be encoded; the code still says it
	}
	return detailed.Err()
}

// ErrorFrom turns the status of a call that the server's fence refused back into the error that it came from: a
// [*leasehold.StaleTokenError], or one that matches [fence.ErrConflict], [fence.ErrInvalidResource], [ErrMissingToken] or
// [ErrMalformedToken]. The result is still a status for package status. Every other error is returned as it is.
func ErrorFrom(err error) error {
	s, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, detail := range s.Details() {
		info, ok := detail.(*errdetails.ErrorInfo)
		if !ok || info.GetDomain() != Domain {
			continue
		}
		if reason := reasonOf(info); reason != nil {
			return &refusal{status: s, reason: reason}
		}
	}
	return err
}

// reasonOf returns nil for a reason that callers have nothing to branch on.
func reasonOf(info *errdetails.ErrorInfo) error {
	switch info.GetReason() {
	case ReasonStaleToken:
		data := info.GetMetadata()
		token, tokenErr := leasehold.ParseToken(data["token"])
		highest, highestErr := leasehold.ParseToken(data["highest"])
		if err := errors.Join(tokenErr, highestErr); err != nil {
			return fmt.Errorf("%w: details: %w", leasehold.ErrStaleToken, err)
		}
		return &leasehold.StaleTokenError{Resource: data["resource"], Token: token, Highest: highest}
	case ReasonMissingToken:
		return ErrMissingToken
	case ReasonMalformedToken:
		return ErrMalformedToken
	case ReasonInvalidResource:
		return fence.ErrInvalidResource
	case ReasonConflict:
		return fence.ErrConflict
	}
	return nil
}

// refusal is a status and the error that it stands for.
type refusal struct {
	status *status.Status
	reason error
}

func (r *refusal) Error() string              { return "grpcfence: " + r.status.Err().Error() }
func (r *refusal) Unwrap() error              { return r.reason }
func (r *refusal) GRPCStatus() *status.Status { return r.status }
