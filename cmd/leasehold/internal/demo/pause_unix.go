// SPDX-License-Identifier: Apache-2.0

//go:build unix

package demo

import (
	"syscall"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
)

// canPause says that this system can stop a process from outside.
const canPause = true

func pause(c *offspring.Child) error  { return c.Signal(syscall.SIGSTOP) }
func resume(c *offspring.Child) error { return c.Signal(syscall.SIGCONT) }
