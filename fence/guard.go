// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"

	"example.com/leasehold"
)

// Marks is a store of high-water marks that are apart from the data. On its own it cannot make the check and the write
// one step; a [Gate] over it does so for a resource that is served by one process.
type Marks interface {
	// Raise admits token for resource and raises the mark to it, or refuses it; errors as the contract of this package
	// says. It is safe for concurrent use.
	Raise(ctx context.Context, resource string, token leasehold.Token) error
}

// Guard makes the check of a token and the write that follows it one step. [Gate] does it within a process, the Guard of
// package sqlfence in a transaction of the database. A Guard is safe for concurrent use.
type Guard interface {
	// Begin admits token for resource, or refuses it; errors as the contract of this package says. It may wait for a
	// write with a lower token to end, at most until ctx ends. The caller must end the Admission.
	Begin(ctx context.Context, resource string, token leasehold.Token) (Admission, error)
}

// Admission is one admitted write between its check and its end. While it is open, no higher token is admitted for its
// resource. It is not safe for concurrent use.
type Admission interface {
	// Context is the context for the write. It carries the [Write], and what else the guard has for it, such as the
	// transaction to write in.
	Context() context.Context
	// Commit ends the write and keeps it. If it fails, the write was not kept or its outcome is unknown; the error says
	// which if the guard can tell.
	Commit() error
	// Discard ends the write and undoes it, as far as the guard can: a Gate cannot. After Commit it does nothing, so that
	// it can be deferred.
	Discard()
}

// Do runs write as one step with the check of token. If the token is refused, write is not called. If write returns an
// error or panics, the admission is discarded.
func Do(ctx context.Context, guard Guard, resource string, token leasehold.Token, write func(context.Context) error) error {
	admission, err := guard.Begin(ctx, resource, token)
	if err != nil {
		return err
	}
	defer admission.Discard()
	if err := write(admission.Context()); err != nil {
		return err
	}
	return admission.Commit()
}
