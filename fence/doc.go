// SPDX-License-Identifier: Apache-2.0

// Package fence holds what the adapters below it share: the contract of a fenced write, the checks of its arguments, and
// a gate for resources that live in one process.
//
// A lease tells its holder when to stop. It cannot stop a holder that was stopped between its last check and its write
// (R13); only the resource can, by remembering the highest token that it has seen. The packages under fence/ do that for
// etcd, SQL databases, Redis, HTTP and gRPC services and object stores.
//
// # The contract
//
// Every adapter keeps these promises, and package fencetest checks them on the real servers:
//
//   - A write carries a resource and a token. A resource is named by 1 to 1,024 bytes of valid UTF-8 without NUL bytes,
//     compared byte by byte; anything else is refused with [ErrInvalidResource].
//   - The check and the write are one atomic step for the resource. While an admitted write is under way, no higher
//     token is admitted: it waits, or the write fails.
//   - A token lower than the highest that was admitted is refused with a [*leasehold.StaleTokenError] that names both. An
//     equal token passes, because one holder writes many times. A token that is not positive belongs to no grant; it
//     is refused with an error that matches [ErrInvalidToken] and [leasehold.ErrStaleToken].
//   - A refused write has changed nothing.
//   - The mark survives restarts of the resource as the data does.
//   - An error that is none of these says nothing about the outcome unless the adapter documents that it does: the
//     write may have been made. It may be tried again with the same token.
//
// # What it does not promise
//
// The mark orders holders, it does not order the writes of one holder. It guards the resource only against writers that
// come through the fence. And tokens are comparable only as long as they come from one etcd cluster that has never gone
// back in time: see docs/fencing.md for restores from a snapshot.
package fence
