// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"example.com/leasehold/leaseholdtest"
)

func TestNightly_RunsUnderItsLock(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	if err := run(t.Context(), cluster.Member(0).Endpoint()); err != nil {
		t.Error(err)
	}
	cluster.NoKeys(t, "leasehold/")
}
