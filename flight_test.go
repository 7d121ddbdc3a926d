// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func putOf(key string) []clientv3.Op { return []clientv3.Op{clientv3.OpPut(key, "v")} }

// R9: only what etcd surely did not apply counts as refused. In doubt, the outcome is unknown.
func TestJudge_CallsAnOutcomeKnownOnlyIfItIs(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want outcome
	}{
		{nil, outcomeApplied},

		{rpctypes.ErrPermissionDenied, outcomeRefused},
		{rpctypes.ErrLeaseNotFound, outcomeRefused},
		{rpctypes.ErrLeaseExist, outcomeRefused},
		{rpctypes.ErrNoSpace, outcomeRefused},
		{rpctypes.ErrTooManyOps, outcomeRefused},
		{rpctypes.ErrRequestTooLarge, outcomeRefused},
		{rpctypes.ErrDuplicateKey, outcomeRefused},
		{rpctypes.ErrEmptyKey, outcomeRefused},
		{rpctypes.ErrUserEmpty, outcomeRefused},
		{ErrRolledBack, outcomeRefused},
		{fmt.Errorf("wrapped: %w", rpctypes.ErrPermissionDenied), outcomeRefused},
		{rpctypes.ErrGRPCPermissionDenied, outcomeRefused}, // as a status
		{status.Error(codes.Unimplemented, "proxy"), outcomeRefused},

		{rpctypes.ErrTimeout, outcomeUnknown},
		{rpctypes.ErrTimeoutDueToLeaderFail, outcomeUnknown},
		{rpctypes.ErrTimeoutDueToConnectionLost, outcomeUnknown},
		{rpctypes.ErrTimeoutWaitAppliedIndex, outcomeUnknown},
		{rpctypes.ErrNoLeader, outcomeUnknown},
		{rpctypes.ErrNotLeader, outcomeUnknown},
		{rpctypes.ErrLeaderChanged, outcomeUnknown},
		{rpctypes.ErrTooManyRequests, outcomeUnknown},
		{rpctypes.ErrStopped, outcomeUnknown},
		{rpctypes.ErrUnhealthy, outcomeUnknown},
		{rpctypes.ErrInvalidAuthToken, outcomeUnknown}, // the next attempt brings a new one
		{rpctypes.ErrAuthOldRevision, outcomeUnknown},
		{rpctypes.ErrCorrupt, outcomeUnknown},
		{errCutOff, outcomeUnknown},
		{status.Error(codes.Internal, "stream reset"), outcomeUnknown},
		{status.Error(codes.Canceled, ""), outcomeUnknown},
		{status.Error(codes.DeadlineExceeded, ""), outcomeUnknown},
		{status.Error(codes.Unknown, ""), outcomeUnknown},
		{status.Error(codes.Aborted, ""), outcomeUnknown},
		{status.Error(codes.DataLoss, ""), outcomeUnknown},
		{context.Canceled, outcomeUnknown},
		{context.DeadlineExceeded, outcomeUnknown},
		{errors.New("of nobody we know"), outcomeUnknown},
	} {
		if got := judge(tc.err); got != tc.want {
			t.Errorf("judge(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}
