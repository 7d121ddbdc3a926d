// SPDX-License-Identifier: Apache-2.0

package clock

import "testing"

func BenchmarkNow(b *testing.B) {
	c := New()
	for b.Loop() {
		c.Now()
	}
}
