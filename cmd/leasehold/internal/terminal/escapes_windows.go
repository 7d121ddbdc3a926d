// SPDX-License-Identifier: Apache-2.0

package terminal

import (
	"os"

	"golang.org/x/sys/windows"
)

// enableEscapes asks the console to understand ANSI sequences, and reports whether it will. What is no console takes
// them as bytes.
func enableEscapes(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if err := windows.GetConsoleMode(h, &mode); err != nil {
		return true
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
