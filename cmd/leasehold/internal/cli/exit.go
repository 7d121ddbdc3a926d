// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"
)

// Exit codes. They are part of the interface and do not change. A command that runs another one passes that one's code
// on, so its own are out of the way of what programs use: 118 to 125, and 126, 127 and 128+n with the meanings that
// shells, env and timeout give them.
const (
	exitOK          = 0
	exitNo          = 1   // the answer is no: nobody leads, nobody holds, a check found something
	exitUsage       = 64  // called wrongly; nothing was done
	exitDenied      = 118 // credentials or permissions are missing
	exitUnreachable = 119 // etcd did not answer in time
	exitBusy        = 120 // --try: somebody else holds the name, or waits for it
	exitTimeout     = 121 // --wait: it was not free in time
	exitLost        = 122 // the lock was lost and the command was stopped
	exitMaxHold     = 123 // --max-hold: the time was over and the command was stopped
	exitFailed      = 125 // leasehold itself failed
	exitNotExec     = 126 // the command could not be executed
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // plus the number of the signal that ended the command, or leasehold
)

// exitError is an error with an exit code. An empty err has been told already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exitWith(code int, format string, args ...any) error {
	return &exitError{code, fmt.Errorf(format, args...)}
}

// exitCode returns the code for err, and whether there is anything left to say about it.
func exitCode(err error) (code int, tell bool) {
	if err == nil {
		return exitOK, false
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code, e.err != nil
	}
	return exitFailed, true
}

// exitWords are the meanings, but for those of exitNo, which each command has its own words for.
var exitWords = map[int]string{
	exitOK:          "done",
	exitUsage:       "called wrongly",
	exitDenied:      "etcd refuses the credentials, or a permission is missing",
	exitUnreachable: "etcd does not answer",
	exitBusy:        "--try: somebody else holds the name, or waits for it",
	exitTimeout:     "--wait: it was not free in time",
	exitLost:        "the lock was lost and the command was stopped, or ended unprotected",
	exitMaxHold:     "--max-hold: the time was over and the command was stopped",
	exitFailed:      "leasehold itself failed",
	exitNotExec:     "the command cannot be executed",
	exitNotFound:    "the command was not found",
}

// exitHelp is the part of a command's help that explains its exit codes: first what comes before the numbers, and last what
// signals do.
func exitHelp(first, no, signals string, codes ...int) string {
	var b strings.Builder
	b.WriteString("Exit codes:\n\n" + first)
	for _, code := range codes {
		words := exitWords[code]
		if code == exitNo {
			words = no
		}
		fmt.Fprintf(&b, "%5d  %s\n", code, words)
	}
	return b.String() + "128+n  " + signals
}

// What the help of a command that runs another one says, and what that of the others does.
const (
	commandsOwn     = "  the command's own, or 128+n if signal n ended it\n"
	endedWhileIdle  = "leasehold was ended by signal n while no command ran"
	endedBySignal   = "ended by signal n"
	nobodyHolds     = "nobody holds it"
	nothingReleased = "nothing was deleted: the token is not in the line, or the answer was no"
)
