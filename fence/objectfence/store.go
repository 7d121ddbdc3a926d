// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"context"
	"errors"
)

var (
	// ErrNotExist reports an object that is not there.
	ErrNotExist = errors.New("objectfence: no such object")

	// ErrPrecondition reports a conditional write that was not made because its condition did not hold, or because the
	// store was busy with another write to the object. A Store returns it only if it is certain.
	ErrPrecondition = errors.New("objectfence: the condition of a write does not hold")
)

// Store is an object store with conditional writes: S3 with If-Match and If-None-Match, GCS with generations. Packages
// s3store and gcsstore have them. A Store is safe for concurrent use.
type Store interface {
	// Head returns what the store keeps about an object, or ErrNotExist.
	Head(ctx context.Context, key string) (Info, error)
	// Read returns an object, or ErrNotExist.
	Read(ctx context.Context, key string) ([]byte, Info, error)
	// Write makes or replaces an object if it still has this version, or, with an empty version, if it is not there. It
	// must send the request once: a repeated one could fail on the version that the first one made. If the
	// condition does not hold it returns ErrPrecondition; after any other error the outcome is unknown.
	Write(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error
}

// Info is what a store keeps about an object.
type Info struct {
	// Version is what a later write can be conditional on: an ETag, a generation.
	Version string
	// Metadata is the caller's own, with keys in lower case.
	Metadata map[string]string
}
