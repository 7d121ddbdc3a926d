// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package servers

import "syscall"

func processAttributes(owner *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: owner}
}

// unprivileged returns nil: elsewhere than on Linux the tests are not run as root.
func unprivileged(...string) *syscall.Credential { return nil }
