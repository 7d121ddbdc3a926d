// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the tests of packages objectfence and s3store on a real S3 server: Versity's gateway, which
// checks the conditions of a write under the lock that publishes it. It is a module of its own, so that the server is in
// nobody's build.
package conformance
