// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the tests of package sqlfence on real databases. It is a module of its own, so that the
// drivers are in nobody's build.
package conformance
