// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"example.com/leasehold"
	"example.com/leasehold/internal/machineclock"
)

// register is the resource that the lock guards: one value, and the fence that remembers the highest token. It belongs
// to the story's goroutine, so the check and the write that it admits are one step.
type register struct {
	fence  leasehold.Fence
	value  string
	writes []write
}

// write is one attempt, accepted or refused.
type write struct {
	at      machineclock.Instant
	worker  int
	token   leasehold.Token
	refused error
}

const resource = "register"

func (r *register) write(worker int, token leasehold.Token, value string) error {
	err := r.fence.Check(resource, token)
	if err == nil {
		r.value = value
	}
	r.writes = append(r.writes, write{at: machineclock.Now(), worker: worker, token: token, refused: err})
	return err
}
