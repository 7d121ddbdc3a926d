// SPDX-License-Identifier: Apache-2.0

// Package leaseholdtest runs embedded etcd clusters for tests, with faults that a test switches while it runs.
package leaseholdtest
