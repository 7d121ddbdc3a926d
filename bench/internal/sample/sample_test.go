// SPDX-License-Identifier: Apache-2.0

package sample

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestQuantile_IsAValueThatWasMeasured(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		values []time.Duration
		q      float64
		want   float64
	}{
		{hundred, 0, 1},
		{hundred, 0.5, 50},
		{hundred, 0.99, 99},
		{hundred, 0.991, 100},
		{hundred, 1, 100},
		{hundred[:1], 0.99, 1},
		{hundred[:3], 0.5, 2},
	} {
		if got := Quantile(tc.values, tc.q); got != tc.want {
			t.Errorf("quantile %v of %d values: got %v, want %v", tc.q, len(tc.values), got, tc.want)
		}
	}
	if got := Quantile([]float64(nil), 0.5); !math.IsNaN(got) {
		t.Errorf("quantile of nothing: got %v, want NaN", got)
	}
}

func TestMedian_DoesNotReorderWhatItIsGiven(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{7}, 7},
	} {
		before := slices.Clone(tc.values)
		if got := Median(tc.values); got != tc.want {
			t.Errorf("median of %v: got %v, want %v", before, got, tc.want)
		}
		if !slices.Equal(tc.values, before) {
			t.Errorf("%v became %v", before, tc.values)
		}
	}
	if got := Median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: got %v, want NaN", got)
	}
}
