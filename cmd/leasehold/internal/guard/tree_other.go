// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package guard

import (
	"errors"
	"syscall"
	"time"
)

// Without an adopter of orphans the process group is all that can be found.

func adoptOrphans() error { return nil }

func killedWithParent(*syscall.SysProcAttr) {}

func othersLeft(leader int) bool { return !errors.Is(syscall.Kill(-leader, 0), syscall.ESRCH) }

func signalGroup(leader int, sig syscall.Signal) { _ = syscall.Kill(-leader, sig) } // ESRCH: nobody there

func signalAll(leader int, sig syscall.Signal) { signalGroup(leader, sig) }

// status is what has become of the command.
type status struct {
	exited, suspended bool
	code, signal      int
}

// look finds out about leader, and reaps it if it has ended. Its group keeps the id as long as somebody is in it.
func look(leader int) status {
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(leader, &ws, syscall.WNOHANG|syscall.WUNTRACED, nil)
	switch {
	case err != nil || pid != leader:
		return status{}
	case ws.Exited():
		return status{exited: true, code: ws.ExitStatus()}
	case ws.Signaled():
		return status{exited: true, code: -1, signal: int(ws.Signal())}
	case ws.Stopped():
		sig := ws.StopSignal()
		return status{suspended: sig == syscall.SIGTSTP || sig == syscall.SIGTTIN || sig == syscall.SIGTTOU}
	}
	return status{}
}

func reapOrphans(int) {}

func reap(int) {}

// endAll is the parent's part when the guardian has been killed.
func endAll(leader int) {
	for othersLeft(leader) {
		signalGroup(leader, syscall.SIGKILL)
		pause := time.NewTimer(2 * time.Millisecond)
		<-pause.C
	}
}
