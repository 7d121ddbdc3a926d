// SPDX-License-Identifier: Apache-2.0

package etcdfence

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Txn is the caller's transaction behind the check of a token. If, Then and Else may each be called several times and add
// to what they were given before. A Txn is committed once and not safe for concurrent use.
type Txn struct {
	ctx   context.Context
	fence *Fence
	write fence.Write
	err   error // why nothing is to be sent

	cmps      []clientv3.Cmp
	then, alt []clientv3.Op
	committed bool
}

// If adds conditions of the caller's own.
func (t *Txn) If(cmps ...clientv3.Cmp) *Txn {
	t.cmps = append(t.cmps, cmps...)
	return t
}

// Then adds what is done if the token is admitted and all conditions hold.
func (t *Txn) Then(ops ...clientv3.Op) *Txn {
	t.then = append(t.then, ops...)
	return t
}

// Else adds what is done if the token is admitted and a condition does not hold.
func (t *Txn) Else(ops ...clientv3.Op) *Txn {
	t.alt = append(t.alt, ops...)
	return t
}

// Commit sends the transaction, in one request. The response is that of the caller's own conditions and operations. A
// refused token is a [*leasehold.StaleTokenError], and none of the caller's operations were run; a key of the mark that
// holds no token is [ErrCorruptMark]. Any other error of the request leaves the outcome unknown: etcd may have run the
// transaction although its answer was lost.
func (t *Txn) Commit() (*clientv3.TxnResponse, error) {
	if t.committed {
		return nil, fmt.Errorf("etcdfence: transaction on %q committed twice", t.write.Resource)
	}
	t.committed = true
	if t.err != nil {
		return nil, t.err
	}
	if err := t.write.Validate(); err != nil {
		return nil, err
	}
	key, value := t.fence.Key(t.write.Resource), encode(t.write.Token)
	// "Not greater" is asked as the failure of "greater", because a comparison with the value of a key that is not there
	// never holds: so the first token of a resource passes without a request of its own.
	response, err := t.fence.kv.Txn(t.ctx).
		If(clientv3.Compare(clientv3.Value(key), ">", value)).
		Then(clientv3.OpGet(key)).
		Else(
			// An equal token, the usual case, costs no write of the mark.
			clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(key), "=", value)}, nil, []clientv3.Op{clientv3.OpPut(key, value)}),
			clientv3.OpTxn(t.cmps, t.then, t.alt),
		).
		Commit()
	if err != nil {
		return nil, fmt.Errorf("etcdfence: write to %q with token %s, outcome unknown: %w", t.write.Resource, t.write.Token, err)
	}
	if response.Succeeded {
		return nil, t.refusal(response)
	}
	own := response.Responses[1].GetResponseTxn()
	// The header of a nested answer is empty.
	return &clientv3.TxnResponse{Header: response.Header, Succeeded: own.Succeeded, Responses: own.Responses}, nil
}

// refusal makes the error from the mark that was in the way.
func (t *Txn) refusal(response *clientv3.TxnResponse) error {
	var found []byte
	if kvs := response.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		found = kvs[0].Value
	}
	highest, err := decode(found)
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrCorruptMark, t.fence.Key(t.write.Resource), err)
	}
	return &leasehold.StaleTokenError{Resource: t.write.Resource, Token: t.write.Token, Highest: highest}
}

// digits is the length of a mark's value: no int64 needs more, and all have the same.
const digits = 20

func encode(t leasehold.Token) string { return fmt.Sprintf("%0*d", digits, int64(t)) }

func decode(value []byte) (leasehold.Token, error) {
	if len(value) != digits {
		return 0, fmt.Errorf("%d bytes, want %d digits", len(value), digits)
	}
	first := 0
	for first < digits-1 && value[first] == '0' {
		first++
	}
	return leasehold.ParseToken(string(value[first:]))
}
