// SPDX-License-Identifier: Apache-2.0

// Package leasehold holds locks and leads elections over etcd leases, with fencing tokens and a conservative expiry of
// the holder's own.
package leasehold
