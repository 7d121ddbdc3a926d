// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the tests of packages objectfence and gcsstore on a fake of Google Cloud Storage, which checks
// generations under the lock that publishes the object, and keeps everything in memory. It is a module of its own, so that
// the fake is in nobody's build.
package conformance
