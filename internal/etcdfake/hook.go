// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Call is one request on its way into a member: a unary call, or one message of a stream.
type Call struct {
	Member  int
	Host    string // the client's, see Host.Name
	Method  string // "KV/Txn", "Lease/LeaseKeepAlive", ...
	Request proto.Message

	cluster *Cluster
	conn    *conn
}

// Detached returns a context with ctx's values that outlives the request and ends with the cluster: with it a request
// can be applied although its client has gone.
func (c Call) Detached(ctx context.Context) context.Context { return detached{c.cluster.ctx, ctx} }

type detached struct {
	context.Context
	values context.Context
}

func (d detached) Value(key any) any { return d.values.Value(key) }

// ResetConnection breaks the connection that the call came by, on both sides at once.
func (c Call) ResetConnection() {
	if c.conn != nil {
		c.conn.reset()
	}
}

// Next lets the request go on into the member, through the hooks that were added later, and returns the answer. It
// can be called any number of times: a request handed on twice is a request that the network repeated. The answer to
// a watch message is empty and goes nowhere.
type Next func(ctx context.Context) (proto.Message, error)

// Hook stands between the network and a member. It decides when, how often and whether a request is handed on, and
// what is answered. The context ends with the request, so a hook that lets a request be applied although its client
// has gone hands on call.Detached(ctx). Messages of one stream pass one after the other: a hook that delays one
// renewal delays those behind it on the same stream.
type Hook func(ctx context.Context, call Call, next Next) (proto.Message, error)

// hooks are run in the order in which they were added.
type hooks struct {
	mu  sync.Mutex
	all []*Hook
}

// Hook adds a hook and returns what removes it.
func (c *Cluster) Hook(h Hook) (remove func()) {
	c.hooks.mu.Lock()
	defer c.hooks.mu.Unlock()
	p := &h
	c.hooks.all = append(c.hooks.all, p)
	return func() {
		c.hooks.mu.Lock()
		defer c.hooks.mu.Unlock()
		c.hooks.all = slices.DeleteFunc(c.hooks.all, func(o *Hook) bool { return o == p })
	}
}

func (h *hooks) run(ctx context.Context, call Call, last Next) (proto.Message, error) {
	h.mu.Lock()
	all := slices.Clone(h.all)
	h.mu.Unlock()
	next := last
	for _, hook := range slices.Backward(all) {
		rest := next
		next = func(ctx context.Context) (proto.Message, error) { return (*hook)(ctx, call, rest) }
	}
	return next(ctx)
}

// Once makes a hook that acts on the first call for which match is true and lets all others pass.
func Once(match func(Call) bool, h Hook) Hook {
	var once sync.Once
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		act := false
		if match(call) {
			once.Do(func() { act = true })
		}
		if act {
			return h(ctx, call, next)
		}
		return next(ctx)
	}
}

// On makes a hook that acts on one method and lets all others pass.
func On(method string, h Hook) Hook {
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		if call.Method == method {
			return h(ctx, call, next)
		}
		return next(ctx)
	}
}

// Delay is a hook that keeps a request from the member for a while. It is applied afterwards even if its client has gone.
func Delay(d time.Duration) Hook {
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		ctx = call.Detached(ctx)
		if err := sleep(ctx, d); err != nil {
			return nil, err
		}
		return next(ctx)
	}
}

// DelayAnswer is a hook that applies a request and keeps the answer for a while.
func DelayAnswer(d time.Duration) Hook {
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		resp, err := next(call.Detached(ctx))
		if serr := sleep(ctx, d); serr != nil {
			return nil, serr
		}
		return resp, err
	}
}

// LoseAnswer is a hook that applies a request and then resets the connection instead of answering.
func LoseAnswer() Hook {
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		_, _ = next(call.Detached(ctx))
		call.ResetConnection()
		return nil, status.Error(codes.Unavailable, "fake: answer lost")
	}
}

// KeepAnswer is a hook that applies a request and never answers: the client waits until it gives up.
func KeepAnswer() Hook {
	return func(ctx context.Context, call Call, next Next) (proto.Message, error) {
		_, _ = next(call.Detached(ctx))
		<-ctx.Done()
		return nil, ctx.Err()
	}
}

// LoseRequest is a hook that resets the connection before a request is applied.
func LoseRequest() Hook {
	return func(_ context.Context, call Call, _ Next) (proto.Message, error) {
		call.ResetConnection()
		return nil, status.Error(codes.Unavailable, "fake: request lost")
	}
}

// Repeat is a hook that applies a request n times and answers as the last one did.
func Repeat(n int) Hook {
	return func(ctx context.Context, _ Call, next Next) (proto.Message, error) {
		for range n - 1 {
			_, _ = next(ctx)
		}
		return next(ctx)
	}
}

// Fail is a hook that answers with an error and applies nothing. Use the ErrGRPC values of rpctypes, or any status.
func Fail(err error) Hook {
	return func(context.Context, Call, Next) (proto.Message, error) { return nil, err }
}
