// SPDX-License-Identifier: Apache-2.0

// Package guard runs a command so that it, and everything that it has started, is gone before a given instant, whatever
// happens to this process.
//
// What it does not promise: a process that may not be signalled by this user (a set-uid program) or that hangs inside
// the kernel stays; so does what was started through another service (systemd-run, docker, at), which is no
// descendant. A resource that compares fencing tokens is safe from these as well.
//
// # How
//
// Between this process and the command stands a guardian: this program again, with a hidden subcommand, in a process
// group of its own. It starts the command as the leader of another group. It knows the deadline and times it itself on a
// clock that counts suspend, so the command is stopped in time also while this process is stopped. It notices the death of
// this process, and the kernel kills the command when the guardian dies. On Linux the guardian adopts orphans
// (PR_SET_CHILD_SUBREAPER), so that no descendant gets away from it by a double fork or a session of its own, and this
// process adopts them if the guardian is killed. Elsewhere the process group is all that can be reached.
//
//	event                                     what happens to the command and its descendants
//	deadline − margin − grace                 SIGTERM (and SIGCONT, for stopped ones)
//	deadline − margin                         SIGKILL, until nobody is left
//	Run.Stop, or this process dies            SIGTERM; SIGKILL after grace, not later than deadline − margin
//	Run.Kill                                  SIGKILL, until nobody is left
//	the guardian dies                         SIGKILL for the command by the kernel, for the rest by this process
//	the command ends, descendants live on     as Run.Stop
//
// On Windows there is no guardian but a job object that ends all its processes when its last handle closes, and
// no gentle signal: SIGTERM's place is empty.
//
// A Run's methods are safe for concurrent use.
package guard

import (
	"errors"
	"fmt"
	"time"
)

// Command is what to run.
type Command struct {
	Path string   // of the executable
	Args []string // with its own name first
	Env  []string

	// Margin is the time before the deadline at which SIGKILL is sent: what killing takes on a busy machine.
	Margin time.Duration
	// Grace is the time that the command has between SIGTERM and SIGKILL.
	Grace time.Duration

	// Guardian is the command line that runs [Guardian].
	Guardian []string
	// Notify, if not nil, is called from a goroutine of the Run with what happens. It must not block for long.
	Notify func(Event)
}

// ErrTooLate says that the deadline was so near that the command was not started.
var ErrTooLate = errors.New("guard: too close to the deadline to start")

// Event is something that happened to a running command.
type Event int

// The events.
const (
	Expiring  Event = iota + 1 // the deadline is near: SIGTERM was sent
	Killing                    // SIGKILL was sent
	Leftovers                  // the command has ended and has left processes behind
	Resumed                    // the terminal stopped the command (^Z) and the guardian let it go on
)

func (e Event) String() string {
	switch e {
	case Expiring:
		return "expiring"
	case Killing:
		return "killing"
	case Leftovers:
		return "leftovers"
	case Resumed:
		return "resumed"
	}
	return fmt.Sprintf("event %d", int(e))
}

// Result is how a command ended.
type Result struct {
	Code   int // exit code; -1 if it did not exit
	Signal int // number of the signal that ended it; 0 if it exited
	// Unknown says that the guardian was killed: all processes are gone, but nobody saw how the command ended.
	Unknown bool
}

// StartError says that the command could not be started.
type StartError struct {
	Path string
	Err  error // errors.Is fs.ErrNotExist, fs.ErrPermission or another
}

func (e *StartError) Error() string { return fmt.Sprintf("cannot start %s: %v", e.Path, e.Err) }

func (e *StartError) Unwrap() error { return e.Err }
