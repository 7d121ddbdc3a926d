// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the SDK and etcd's real client against a fake etcd in a bubble of testing/synctest, under seeded
// schedules of faults, and judges at every step in true time: never two valid holders, validity that ends before the
// grantor's expiry, tokens that rise, no resurrection, no stuck name, nothing left behind.
package simulation
