// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Where a name lives in etcd:
//
//	<prefix><escaped name>/<lease id in hex>-<slot in hex>
//
// The oldest create revision under "<prefix><escaped name>/" is the holder, the others wait in that order. Escaping
// makes "/" impossible inside a name, so that no name's range contains another's. This is the line that etcd's own
// concurrency package and etcdctl keep, so that all of them exclude each other.

const maxNameBytes = 1024

// checkName refuses names that cannot be kept apart or that no operator could read.
func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: empty, want 1 to %d bytes", ErrInvalidName, maxNameBytes)
	case len(name) > maxNameBytes:
		return fmt.Errorf("%w %s: %d bytes, want at most %d", ErrInvalidName, quoteBounded(name), len(name), maxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w %s: not valid UTF-8", ErrInvalidName, quoteBounded(name))
	}
	return nil
}

// escapeName replaces "%", "/" and control bytes by %XX and leaves everything else as it is.
func escapeName(name string) string {
	special := func(b byte) bool { return b == '%' || b == '/' || b < 0x20 || b == 0x7f }
	var n int
	for i := range len(name) {
		if special(name[i]) {
			n++
		}
	}
	if n == 0 {
		return name
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(name) + 2*n)
	for i := range len(name) {
		if c := name[i]; special(c) {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// lineDir is the prefix of all keys of a name. The name has been checked.
func lineDir(prefix, name string) string { return prefix + escapeName(name) + "/" }

// placeKey is the key of one acquisition: known before anything is sent, and no other's until the acquisition is settled
// and its key known to be gone (R9).
func placeKey(dir string, lease clientv3.LeaseID, slot uint64) string {
	return fmt.Sprintf("%s%x-%x", dir, int64(lease), slot)
}

// parsePlaceKey is the inverse of placeKey for the keys of dir. Keys that others have made need not have that form.
func parsePlaceKey(dir, key string) (lease clientv3.LeaseID, slot uint64, ok bool) {
	id, tail, ok := strings.Cut(strings.TrimPrefix(key, dir), "-")
	if !ok {
		return 0, 0, false
	}
	n, err1 := strconv.ParseInt(id, 16, 64)
	slot, err2 := strconv.ParseUint(tail, 16, 64)
	return clientv3.LeaseID(n), slot, err1 == nil && err2 == nil
}
