// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package demo

import (
	"errors"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
)

// canPause says that this system has no SIGSTOP; the story leaves the stopped holder out and says so.
const canPause = false

func pause(*offspring.Child) error  { return errors.ErrUnsupported }
func resume(*offspring.Child) error { return errors.ErrUnsupported }
