// SPDX-License-Identifier: Apache-2.0

//go:build race

package simulation

// race: the tests run under the race detector, which makes them several times slower.
const race = true
