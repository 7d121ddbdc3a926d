// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// processAttributes makes a server die with the process of the test, and run as owner if that is not nil.
func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: owner}
}

// unprivileged returns the first of these users that exists, for servers that refuse to run as root. It returns nil if
// the test does not run as root.
func unprivileged(names ...string) *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if errUID == nil && errGID == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}
