// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Txn returns a transaction that runs only while this very grant exists: etcd checks that in the same step, so that no
// write of it can come too late. If, Then and Else are the caller's own and keep their meaning, as do Succeeded and the
// Responses of the answer. On a grant that was lost or released neither branch runs, and Commit returns the reason, an
// error that matches [ErrReleased], [ErrExpired], [ErrRevoked], [ErrRolledBack] or [ErrClosed]; so a failed comparison of the
// caller's is told from a lost grant.
//
// Commit sends the transaction once, bounded by ctx, because it need not be idempotent. An error that leaves open
// whether it was applied says "outcome unknown" and matches [ErrUnknownOutcome].
//
// The whole is nested in a transaction of Leasehold's, so it has one operation less than the server's limit (128 by default).
// A Txn is not safe for concurrent use. Calls out of order (If, Then, Else, each at most once) make Commit fail.
func (g *Grant) Txn(ctx context.Context) clientv3.Txn { return &grantTxn{grant: g, ctx: ctx} }

type grantTxn struct {
	grant *Grant
	ctx   context.Context // clientv3.Txn takes it at the beginning, too
	stage stage
	cmps  []clientv3.Cmp
	then  []clientv3.Op
	els   []clientv3.Op
	err   error // of a call out of order
}

type stage int

const (
	atStart stage = iota
	afterIf
	afterThen
	afterElse
	afterCommit
)

func (t *grantTxn) to(s stage, name string) {
	if t.stage >= s && t.err == nil {
		t.err = fmt.Errorf("leasehold: transaction: %s called twice or out of order: want If, Then, Else, Commit", name)
	}
	t.stage = max(t.stage, s)
}

func (t *grantTxn) If(cmps ...clientv3.Cmp) clientv3.Txn {
	t.to(afterIf, "If")
	t.cmps = append(t.cmps, cmps...)
	return t
}

func (t *grantTxn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.to(afterThen, "Then")
	t.then = append(t.then, ops...)
	return t
}

func (t *grantTxn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.to(afterElse, "Else")
	t.els = append(t.els, ops...)
	return t
}

func (t *grantTxn) Commit() (*clientv3.TxnResponse, error) {
	if t.to(afterCommit, "Commit"); t.err != nil {
		return nil, t.err
	}
	resp, err := t.commit()
	if err != nil {
		return nil, fmt.Errorf("leasehold: transaction under %q: %w", t.grant.Name(), err)
	}
	return resp, nil
}

func (t *grantTxn) commit() (*clientv3.TxnResponse, error) {
	g := t.grant
	if err := g.Err(); err != nil {
		return nil, err // nothing is sent
	}
	e := g.place.session.engine
	sent := e.mark.stamp()
	resp, err := e.client.KV.Txn(t.ctx).If(g.Cmp()).Then(clientv3.OpTxn(t.cmps, t.then, t.els)).Commit()
	switch {
	case judge(err) == outcomeUnknown && e.client.Ctx().Err() != nil:
		return nil, fmt.Errorf("%w: %w (%w)", ErrUnknownOutcome, errClientClosed, err)
	case judge(err) == outcomeUnknown && t.ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, ending(t.ctx))
	case judge(err) == outcomeUnknown:
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	case err != nil:
		return nil, err
	}
	if err := e.linearizable(resp.Header, sent); err != nil {
		return nil, err
	}
	if !resp.Succeeded {
		g.taken()
		return nil, g.Err()
	}
	inner := resp.Responses[0].GetResponseTxn()
	return &clientv3.TxnResponse{Header: resp.Header, Succeeded: inner.GetSucceeded(), Responses: inner.GetResponses()}, nil
}
