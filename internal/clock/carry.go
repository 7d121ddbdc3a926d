// SPDX-License-Identifier: Apache-2.0

package clock

import "context"

type contextKey struct{}

// NewContext returns a context that carries c, so that whoever looks for a clock with [From] finds this one. It is for
// tests that let a machine sleep: the context of an etcd client (clientv3.Config.Context) is where the SDK looks.
func NewContext(ctx context.Context, c *Clock) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the clock that ctx carries, and otherwise a new one.
func From(ctx context.Context) *Clock {
	if c, ok := ctx.Value(contextKey{}).(*Clock); ok {
		return c
	}
	return New()
}
