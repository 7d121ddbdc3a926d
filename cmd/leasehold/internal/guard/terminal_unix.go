// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the one that this process's group owns and lends to the command's, so that the command can read from it
// and gets the signals of its keys.
type terminal struct {
	fd    int
	group int // ours
}

// ownTerminal returns the terminal at standard input if this process is in its foreground, or nil.
func ownTerminal() *terminal {
	fd := int(os.Stdin.Fd())
	front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	if err != nil || front != unix.Getpgrp() {
		return nil
	}
	return &terminal{fd, front}
}

// lent is called once the guardian runs. A background process that takes the terminal back, or writes to one that is
// set so (stty tostop), is stopped with SIGTTOU unless it ignores that; and this process must not stop. The command
// does not inherit it, because its guardian was started before.
func (t *terminal) lent() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
	}
}

// takeBack puts this process's group into the foreground again.
func (t *terminal) takeBack() {
	if t != nil {
		_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, t.group) // the terminal may have gone
	}
}
