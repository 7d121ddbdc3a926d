// SPDX-License-Identifier: Apache-2.0

// Package objectfence fences writes to object stores that have conditional writes, such as S3 and GCS.
//
// The token is kept with the object, in its metadata. A write reads that first and replaces the object on the condition
// that it is still the same: two requests, and more only if somebody else writes in between.
//
// # Why objects begin with a line of their own
//
// S3 tells versions of an object apart by its ETag, which for most objects is a hash of the content alone. An old holder
// that saw "idle" with token 5 could replace the "idle" that the new holder wrote with token 7: the same ETag. So
// the first line of every object that is written here carries the token and a random number, and no two contents are the
// same. [Fence.Read] takes it off; other readers skip the first line.
//
// # Limits
//
// Deleting an object forgets its mark; write an empty one instead. Objects are written whole and held in memory. Fences guard single
// objects: for a write of several, write them under new names first and then fence the one object that points to them.
package objectfence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// TokenKey is the key of the metadata that holds the token of an object, in decimal.
const TokenKey = "leasehold-token"

// ErrCorruptMark reports an object whose token cannot be read. Nothing was changed.
var ErrCorruptMark = errors.New("objectfence: the object's token cannot be read")

// Config tunes a [Fence]. The zero value works.
type Config struct {
	// Key returns the key of the object of a resource. Default: the name of the resource.
	Key func(resource string) string
	// Attempts is how often a write is tried that finds that somebody else wrote in between; afterwards it fails with
	// [fence.ErrConflict]. Default 10.
	Attempts int
}

// Fence keeps marks in the metadata of the objects that they guard. It is safe for concurrent use.
type Fence struct {
	store Store
	Config
}

// New returns a fence for the objects of store.
func New(store Store, config Config) (*Fence, error) {
	if store == nil {
		return nil, errors.New("objectfence: no store")
	}
	if config.Attempts < 0 {
		return nil, fmt.Errorf("objectfence: %d attempts: want at least 1", config.Attempts)
	}
	if config.Attempts == 0 {
		config.Attempts = 10
	}
	if config.Key == nil {
		config.Key = func(resource string) string { return resource }
	}
	return &Fence{store: store, Config: config}, nil
}

// Write replaces the object of resource, if token is not lower than the highest that was admitted for it. A refused token is
// a [*leasehold.StaleTokenError]. With [fence.ErrConflict], too, nothing was changed; any other error leaves the outcome
// unknown.
func (f *Fence) Write(ctx context.Context, resource string, token leasehold.Token, content []byte) error {
	return f.change(ctx, resource, token, func(ctx context.Context, key string) ([]byte, Info, error) {
		info, err := f.store.Head(ctx, key)
		return content, info, err
	})
}

// Update replaces the object of resource with what change makes of it, as one step; change is called again if somebody else
// wrote in between, and gets nil if there is no object. Its error ends the update and is returned. Errors are otherwise
// those of [Fence.Write].
func (f *Fence) Update(ctx context.Context, resource string, token leasehold.Token, change func(old []byte) ([]byte, error)) error {
	return f.change(ctx, resource, token, func(ctx context.Context, key string) ([]byte, Info, error) {
		body, info, err := f.store.Read(ctx, key)
		if err != nil && !errors.Is(err, ErrNotExist) {
			return nil, info, err
		}
		content, changeErr := change(strip(body, info))
		if changeErr != nil {
			return nil, info, &changeError{changeErr}
		}
		return content, info, err
	})
}

// WriteGrant is [Fence.Write] with the token of the grant in ctx. Without a valid grant there, nothing is sent and the error
// is that of [fence.TokenFrom].
func (f *Fence) WriteGrant(ctx context.Context, resource string, content []byte) error {
	token, err := fence.TokenFrom(ctx)
	if err != nil {
		return err
	}
	return f.Write(ctx, resource, token, content)
}

// Read returns the content of the object of resource and the token that it was written with, zero for one that was written
// without a fence. If there is none it returns [ErrNotExist].
func (f *Fence) Read(ctx context.Context, resource string) ([]byte, leasehold.Token, error) {
	body, info, err := f.store.Read(ctx, f.Key(resource))
	if err != nil {
		return nil, 0, fmt.Errorf("objectfence: read %q: %w", resource, err)
	}
	token, err := mark(info)
	if err != nil {
		return nil, 0, fmt.Errorf("objectfence: read %q: %w", resource, err)
	}
	return strip(body, info), token, nil
}

// change makes one write: look returns what to write and what it is to replace.
func (f *Fence) change(ctx context.Context, resource string, token leasehold.Token, look func(context.Context, string) ([]byte, Info, error)) error {
	write := fence.Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return err
	}
	key := f.Key(resource)
	fail := func(err error) error {
		return fmt.Errorf("objectfence: write to %q with token %s: %w", resource, token, err)
	}
	for range f.Attempts {
		content, info, err := look(ctx, key)
		if errors.Is(err, ErrNotExist) {
			info = Info{}
		} else if err != nil {
			return fail(err)
		}
		highest, err := mark(info)
		if err != nil {
			return fail(err)
		}
		if highest > token {
			return &leasehold.StaleTokenError{Resource: resource, Token: token, Highest: highest}
		}
		// Between the look and this write the object can only have got another version, and then it is not made.
		err = f.store.Write(ctx, key, seal(token, content), map[string]string{TokenKey: token.String()}, info.Version)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrPrecondition) {
			return fail(fmt.Errorf("outcome unknown: %w", err))
		}
	}
	return fail(fmt.Errorf("%w: others wrote in between %d times", fence.ErrConflict, f.Attempts))
}

// changeError is the error of the caller's function: nothing was sent.
type changeError struct{ error }

func (e *changeError) Unwrap() error { return e.error }

// mark reads the token of an object, zero if it has none.
func mark(info Info) (leasehold.Token, error) {
	text, ok := info.Metadata[TokenKey]
	if !ok {
		return 0, nil
	}
	token, err := leasehold.ParseToken(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorruptMark, err)
	}
	return token, nil
}

// seal puts the first line before the content.
func seal(token leasehold.Token, content []byte) []byte {
	return append(fmt.Appendf(nil, "leasehold token=%s nonce=%s\n", token, rand.Text()), content...)
}

// strip takes the first line off again, if the object was written here.
func strip(body []byte, info Info) []byte {
	if _, ok := info.Metadata[TokenKey]; !ok {
		return body
	}
	_, content, _ := bytes.Cut(body, []byte("\n"))
	return content
}
