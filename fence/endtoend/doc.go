// SPDX-License-Identifier: Apache-2.0

// Package endtoend holds the tests and the measurements that put every adapter side by side: a real lock in a real etcd, a
// holder that is stopped, and all the resources that it could write to. It is a module of its own, so that what it needs
// is in nobody's build.
//
//	go test ./...                                     a stopped holder is refused by every adapter
//	go test -run '^$' -bench Overhead -benchtime 2000x .   what a fence costs, as ratios
package endtoend
