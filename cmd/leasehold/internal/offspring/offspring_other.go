// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package offspring

import (
	"os"
	"syscall"
)

func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}

func self() (string, error) { return os.Executable() }
