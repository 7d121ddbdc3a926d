// SPDX-License-Identifier: Apache-2.0

package offspring

import "syscall"

func setDeathSignal(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

func self() (string, error) { return "/proc/self/exe", nil }
