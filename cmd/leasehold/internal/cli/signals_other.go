// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package cli

import (
	"os"
	"syscall"
)

var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

var relayedSignals []os.Signal
