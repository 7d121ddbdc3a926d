// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Shrink returns a plan with as few steps as it can find for which fails is still true: for none of the steps that are left
// could it be left out. fails is called often; if what it says is due to chance, it should try several times.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	for size := len(p.Steps) / 2; size > 0; {
		smaller := false
		for at := 0; at < len(p.Steps); {
			q := p
			q.Steps = slices.Delete(slices.Clone(p.Steps), at, min(at+size, len(p.Steps)))
			if fails(q) {
				p, smaller = q, true
			} else {
				at += size
			}
		}
		if !smaller || size > len(p.Steps) {
			size /= 2
		}
	}
	return p
}
