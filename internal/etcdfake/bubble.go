// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	_ "unsafe" // for linkname
)

// neverDone is what every stream of clientv3's Watcher has for a parent context's Done channel: one that is never
// closed. It is made when the program starts, outside of any bubble, and a goroutine that waits on it keeps fake time
// from passing. A nil channel is never closed either, and nobody waits on it. Without this neither cli.Watch nor
// etcd's concurrency package could be used in a bubble.
//
//go:linkname neverDone go.etcd.io/etcd/client/v3.valCtxCh
var neverDone chan struct{}

func init() { neverDone = nil }
