// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
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

// exitCodes is the part of the help of run that explains them; leadExitCodes is that of lead, which has neither --try
// nor --wait.
const (
	exitCodes     = exitCodesFirst + exitCodesOfWaits + exitCodesLast
	leadExitCodes = exitCodesFirst + exitCodesLast
)

const exitCodesFirst = `Exit codes:

  the command's own, or 128+n if signal n ended it
   64  called wrongly
  118  etcd refuses the credentials, or a permission is missing
  119  etcd does not answer
`

const exitCodesOfWaits = `  120  --try: somebody else holds the name, or waits for it
  121  --wait: it was not free in time
`

const exitCodesLast = `  122  the lock was lost and the command was stopped, or ended unprotected
  123  --max-hold: the time was over and the command was stopped
  125  leasehold itself failed
  126  the command cannot be executed
  127  the command was not found`
