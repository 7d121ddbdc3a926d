// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/leasehold/internal/etcdfake"
)

// A process that was stopped, or whose machine slept, for longer than the term finds the context of its work ended at the first
// look, before any timer has fired and any other goroutine has run.
func TestElector_TheContextOfTheWorkComparesTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		pool, err := New(c.Client(t), Config{})
		if err != nil {
			t.Fatal(err)
		}
		type key struct{}
		looked := make(chan struct{})
		e, err := NewElector(pool, ElectorConfig{Name: "name", OnStartedLeading: func(ctx context.Context, l *Leadership) {
			defer close(looked)
			if ctx.Value(key{}) != "value" {
				t.Error("the context does not carry the values of Run's")
			}
			if g, ok := FromContext(ctx); !ok || g != l.Grant {
				t.Error("the context does not carry the grant")
			}
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			l.Session().clk.Suspend(14 * time.Second)
			if ctx.Err() != nil {
				t.Errorf("ended within the term: %v", context.Cause(ctx))
			}
			l.Session().clk.Suspend(2 * time.Second)
			if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), ErrExpired) {
				t.Errorf("after the term: %v, cause %v", err, context.Cause(ctx))
			}
			select {
			case <-ctx.Done():
			default:
				t.Error("Err tells of an end that Done does not know")
			}
			if derived.Err() == nil || !errors.Is(context.Cause(derived), ErrExpired) {
				t.Errorf("a derived context: %v, cause %v", derived.Err(), context.Cause(derived))
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		ran := make(chan error, 1)
		go func() { ran <- e.Run(ctx) }()
		<-looked
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		if err := pool.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
