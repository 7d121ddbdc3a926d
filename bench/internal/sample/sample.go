// SPDX-License-Identifier: Apache-2.0

// Package sample describes measured values by their quantiles. It keeps all of them: no buckets, no rounding.
package sample

import (
	"math"
	"slices"
)

// Quantile returns the smallest of the values that at least the fraction q of them do not exceed: 0 is the
// smallest, 1 the largest. Of no values it is NaN. The values must be sorted.
func Quantile[T ~int64 | ~float64](sorted []T, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return float64(sorted[min(max(rank, 0), len(sorted)-1)])
}

// Median returns the middle of the values, or the mean of the two in the middle; NaN of none. It changes nothing.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
