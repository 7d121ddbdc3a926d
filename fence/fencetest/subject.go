// SPDX-License-Identifier: Apache-2.0

// Package fencetest is the conformance suite of fences. It checks the contract of package fence against any resource that
// can keep a list of values: every adapter of this module passes it on its real server, and so can yours.
//
//	func TestMyFence(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) fencetest.Subject {
//			store := openMyStore(t)
//			return fencetest.Subject{Write: store.Append, Values: store.List, Restart: store.KillAndStart}
//		}, fencetest.Options{})
//	}
package fencetest

import (
	"cmp"
	"context"
	"testing"

	"example.com/leasehold"
)

// Subject is a fenced resource that keeps, for each name, a list of values. Its functions are called concurrently,
// Restart by one goroutine at a time.
type Subject struct {
	// Write appends value to the list of resource, as one step with the check of token, through the fence under test.
	// Each value is written once; an error that is neither a refusal nor matches fence.ErrConflict leaves open whether
	// it was.
	Write func(ctx context.Context, resource string, token leasehold.Token, value string) error

	// Values returns the list of resource in the order in which the values took effect. The resource's name may be
	// unknown.
	Values func(ctx context.Context, resource string) ([]string, error)

	// WritePaused, if not nil, does what Write does, and calls pause after the token was checked and before the value is
	// kept. It is nil for a fence that does both in one request.
	WritePaused func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error

	// Restart, if not nil, kills the resource's server without warning and starts it again on the data that it
	// left. It is nil for a resource whose data and marks live in the process of the test.
	Restart func(ctx context.Context) error
}

// Options sizes the suite. The zero value is what the adapters of this module are held to.
type Options struct {
	// Writers is how many goroutines write at the same time. Default 8.
	Writers int
	// Writes is how many writes have been accepted or refused when the concurrent test ends. Default 10,000, or 1,000
	// with -short.
	Writes int
	// Resources is over how many names the writers spread. Default 3. A subject whose cost of a write grows with the
	// length of the list wants more.
	Resources int
	// MaxResourceBytes is the longest name that the subject takes. Default fence.MaxResourceBytes.
	MaxResourceBytes int
	// Seed makes the tokens of a run those of an earlier one. Default: random. It is printed.
	Seed uint64
}

func (o Options) withDefaults() Options {
	o.Writers = cmp.Or(o.Writers, 8)
	if o.Writes == 0 {
		o.Writes = 10_000
		if testing.Short() {
			o.Writes = 1_000
		}
	}
	o.Resources = cmp.Or(o.Resources, 3)
	return o
}

// Run checks everything that the contract promises. It calls open once for each test in it; each Subject may keep data of
// the others, because the names that the tests use are their own.
func Run(t *testing.T, open func(t *testing.T) Subject, options Options) {
	t.Helper()
	s := suite{open: open, Options: options.withDefaults()}
	t.Run("OrderOfTokens", s.testOrderOfTokens)
	t.Run("RefusedWriteChangesNothing", s.testRefusedWriteChangesNothing)
	t.Run("InvalidTokensAreRefused", s.testInvalidTokensAreRefused)
	t.Run("InvalidResourcesAreRefused", s.testInvalidResourcesAreRefused)
	t.Run("NamesAreStrangers", s.testNamesAreStrangers)
	t.Run("PausedWriteIsNotOvertaken", s.testPausedWriteIsNotOvertaken)
	t.Run("MarkSurvivesRestart", s.testMarkSurvivesRestart)
	t.Run("ConcurrentWriters", s.testConcurrentWriters)
}
