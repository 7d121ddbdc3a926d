// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package guard

import "golang.org/x/sys/unix"

// urgent asks the scheduler to run this process as soon as it wakes. It needs a privilege; without it the margin must do.
func urgent() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }
