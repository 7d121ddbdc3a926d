// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A flight is one transaction under way.
type flight struct {
	writes []*write
	ctx    context.Context
	cancel context.CancelFunc
	due    time.Time // from then on it is overdue
	fresh  bool
}

// boardLocked makes a flight of the writes, which counts as fresh already.
func (c *committer) boardLocked(batch []*write) *flight {
	if len(c.aloft) >= flightLimit {
		c.aloft[0].cancel() // it lands with an unknown outcome
	}
	ctx, cancel := context.WithCancel(c.engine.ctx)
	f := &flight{writes: batch, ctx: ctx, cancel: cancel, fresh: true}
	tries := 0
	for _, w := range batch {
		tries = max(tries, w.tries)
		w.tries++
		w.out++
	}
	c.aloft = append(c.aloft, f)
	f.due = time.Now().Add(c.patienceLocked(tries))
	c.superviseLocked(f.due)
	return f
}

// superviseLocked sets the watchdog for a flight. One timer serves all flights, and is not stopped when they land: hardly any
// is overdue, and timers that come and go thousands of times a second wake the scheduler each time.
func (c *committer) superviseLocked(due time.Time) {
	if !c.watchAt.IsZero() && !due.Before(c.watchAt) {
		return
	}
	c.watchAt = due
	if c.watchdog == nil {
		c.watchdog = time.AfterFunc(time.Until(due), c.supervise)
	} else {
		c.watchdog.Reset(time.Until(due))
	}
}

// patienceLocked is how long a flight may stay unanswered before its writes are sent again by another: several of the
// usual trips, longer with each try.
func (c *committer) patienceLocked(try int) time.Duration {
	const least, most = 250 * time.Millisecond, 2 * time.Second
	return min(max(least, 8*c.trip)<<min(try, 3), most)
}

func (c *committer) observe(trip time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trip = smoothed(c.trip, trip)
}

// supervise sends the writes of overdue flights again by another flight. The connection's balancer picks another member for it.
func (c *committer) supervise() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	now := time.Now()
	c.watchAt = time.Time{}
	for _, f := range c.aloft {
		switch {
		case !f.fresh:
		case f.due.After(now):
			c.superviseLocked(f.due)
		default:
			f.fresh = false
			c.fresh--
			if slices.ContainsFunc(f.writes, func(w *write) bool { return w.tries > 1 }) {
				c.engine.hastenSilent()
			}
			c.requeueLocked(f.writes)
		}
	}
	c.pumpLocked()
}

// fly sends the transaction and takes its answer.
func (c *committer) fly(f *flight) {
	defer f.cancel()
	c.engine.hasten() // somebody waits for this
	stamp, sent := c.engine.mark.stamp(), time.Now()
	resp, err := c.transact(f.ctx, f.writes)
	if err == nil {
		c.observe(time.Since(sent))
		err = c.engine.linearizable(resp.Header, stamp)
	}
	c.land(f, resp, err)
}

// transact sends the writes as one transaction.
func (c *committer) transact(ctx context.Context, writes []*write) (*clientv3.TxnResponse, error) {
	txn := c.engine.client.KV.Txn(ctx)
	if c.reads {
		var ops []clientv3.Op
		for _, w := range writes {
			ops = append(ops, w.then...)
		}
		return txn.Then(ops...).Commit()
	}
	if len(writes) == 1 {
		w := writes[0]
		return txn.If(w.cmps...).Then(w.then...).Else(w.els...).Commit()
	}
	ops := make([]clientv3.Op, len(writes))
	for i, w := range writes {
		ops[i] = clientv3.OpTxn(w.cmps, w.then, w.els)
	}
	return txn.Then(ops...).Commit()
}

// share cuts the answer of the i-th write out of the answer of the whole.
func (c *committer) share(f *flight, i int, resp *clientv3.TxnResponse) *clientv3.TxnResponse {
	if len(f.writes) == 1 {
		return resp
	}
	if c.reads {
		from := 0
		for _, w := range f.writes[:i] {
			from += len(w.then)
		}
		return &clientv3.TxnResponse{
			Header: resp.Header, Succeeded: true, Responses: resp.Responses[from : from+len(f.writes[i].then)],
		}
	}
	part := (*clientv3.TxnResponse)(resp.Responses[i].GetResponseTxn())
	part.Header = resp.Header
	return part
}

// An outcome says what an error tells about whether a request was applied.
type outcome int

const (
	outcomeApplied outcome = iota // no error
	outcomeRefused                // certainly not applied, and asking again will not help
	outcomeUnknown                // may have been applied, or may be yet; asking again may help
)

// judge sorts the errors of a transaction. What it does not know counts as unknown.
func judge(err error) outcome {
	switch {
	case err == nil:
		return outcomeApplied
	case errors.Is(err, ErrRolledBack):
		return outcomeRefused
	case isAny(err, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision,
		rpctypes.ErrNotLeader, rpctypes.Error(rpctypes.ErrGRPCNotSupportedForLearner)):
		return outcomeUnknown
	}
	switch codeOf(err) {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.FailedPrecondition,
		codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated:
		return outcomeRefused
	case codes.ResourceExhausted:
		if errors.Is(err, rpctypes.ErrNoSpace) { // else a limit of the client's own, on the answer to what was applied
			return outcomeRefused
		}
	}
	return outcomeUnknown
}

// spoiled reports whether an error can come from one of the writes of a transaction, or from their number, although its outcome is
// unknown. etcd's client can be set to limits of its own (MaxCallSendMsgSize, MaxCallRecvMsgSize), which nothing tells us but the failure,
// and it can have interceptors, which may have an opinion about a key.
func spoiled(err error) bool {
	if judge(err) != outcomeUnknown {
		return false
	}
	switch codeOf(err) {
	case codes.ResourceExhausted, codes.Unknown, codes.Internal, codes.Aborted, codes.DataLoss:
		return true
	}
	return false // of all: the connection, the member, the login
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// codeOf finds the gRPC code of an error of etcd's client, which is either a status or an etcd error.
func codeOf(err error) codes.Code {
	if coded, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return coded.Code()
	}
	return status.Code(err)
}
