// SPDX-License-Identifier: Apache-2.0

package etcdfence

import (
	"math"
	"testing"

	"example.com/leasehold"
)

// A mark is compared by etcd as a string of bytes, so that the order of the values must be the order of the tokens.
func FuzzMark_ValuesAreOrderedAsTheirTokens(f *testing.F) {
	f.Add(int64(1), int64(2))
	f.Add(int64(9), int64(10))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64-1))
	f.Fuzz(func(t *testing.T, a, b int64) {
		if a <= 0 || b <= 0 {
			return // no tokens
		}
		x, y := encode(leasehold.Token(a)), encode(leasehold.Token(b))
		if (a < b) != (x < y) || (a == b) != (x == y) {
			t.Errorf("%d and %d are written as %q and %q", a, b, x, y)
		}
		if back, err := decode([]byte(x)); err != nil || int64(back) != a {
			t.Errorf("%d was written as %q and read as %v, %v", a, x, back, err)
		}
	})
}

func FuzzDecodeMark_TakesNothingThatWasNotWritten(f *testing.F) {
	for _, value := range []string{"00000000000000000001", "09223372036854775807", "09223372036854775808", "00000000000000000000", "", "-0000000000000000001", "+0000000000000000001", "0000000000000000001 "} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		token, err := decode(value)
		if err == nil && (token <= 0 || encode(token) != string(value)) {
			t.Errorf("%q was read as %v", value, token)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}
