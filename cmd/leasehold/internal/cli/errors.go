// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/embedded"
	"example.com/leasehold/cmd/leasehold/internal/etcdflags"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// classify gives err, which came from etcd or from the SDK, the exit code that fits.
func (l *link) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exitError](err); ok {
		return err
	}
	switch {
	case errors.Is(err, leasehold.ErrInvalidName), errors.Is(err, leasehold.ErrInvalidConfig), errors.Is(err, etcdflags.ErrFlags):
		return &exitError{exitUsage, err}
	case denied(err):
		return &exitError{exitDenied, fmt.Errorf("etcd refuses: %s", plain(err))}
	case ctx.Err() == nil && unreachable(err):
		return exitWith(exitUnreachable, "etcd does not answer: %s", l.flags.Diagnose(ctx))
	}
	if inUse, ok := errors.AsType[*embedded.InUseError](err); ok {
		return &exitError{exitFailed, inUse}
	}
	return &exitError{exitFailed, err}
}

// denied reports whether etcd knows who asks and refuses, or does not know. Some of these have codes that say less.
func denied(err error) bool {
	switch grpcCode(err) {
	case codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	known := rpctypes.Error(unwrapStatus(err))
	return slices.ContainsFunc([]error{
		rpctypes.ErrAuthFailed, rpctypes.ErrUserEmpty, rpctypes.ErrUserNotFound, rpctypes.ErrAuthOldRevision,
	}, func(e error) bool { return errors.Is(known, e) })
}

func unreachable(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	code := grpcCode(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// unwrapStatus returns the innermost error that carries a status of gRPC, or err.
func unwrapStatus(err error) error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		if _, ok := e.(interface{ GRPCStatus() *status.Status }); ok {
			return e
		}
		if etcd, ok := errors.AsType[rpctypes.EtcdError](e); ok {
			return etcd
		}
	}
	return err
}

func grpcCode(err error) codes.Code {
	if etcd, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return etcd.Code()
	}
	if s, ok := errors.AsType[interface {
		error
		GRPCStatus() *status.Status
	}](err); ok {
		return s.GRPCStatus().Code()
	}
	return codes.Unknown
}

// plain is the message of err without gRPC's wrapping.
func plain(err error) string {
	inner := unwrapStatus(err)
	if etcd, ok := errors.AsType[rpctypes.EtcdError](inner); ok {
		return etcd.Error()
	}
	if s, ok := status.FromError(inner); ok {
		return s.Message()
	}
	return err.Error()
}
