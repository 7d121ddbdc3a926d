// SPDX-License-Identifier: Apache-2.0

package main

import "testing"

// The story is told to its end, in which the replicas have counted without a mistake.
func TestLeaderHTTP_CountsThroughRestartsAndACut(t *testing.T) {
	if err := run(t.Context()); err != nil {
		t.Error(err)
	}
}
