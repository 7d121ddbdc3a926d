// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// childStatus returns si_status of a SIGCHLD's siginfo, which x/sys does not name. It follows si_pid and si_uid, at the
// start of the union.
func childStatus(info *unix.Siginfo) int {
	const unionOffset = 3 * 4 // signo, errno, code
	// On 64-bit ports the union is aligned to its pointers.
	offset := uintptr(unionOffset+unsafe.Sizeof(uintptr(0))-1) &^ (unsafe.Sizeof(uintptr(0)) - 1)
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(info), offset+2*4)))
}
