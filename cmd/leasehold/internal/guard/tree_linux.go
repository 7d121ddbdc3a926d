// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// On Linux this process adopts the orphans among its descendants, so whoever descends from it can be found by the
// chain of parents, whatever group or session it has moved to.

func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

func killedWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }

// process is a line of the process table.
type process struct {
	pid, parent int
	zombie      bool
	born        string // in clock ticks since boot: with the pid it names a process uniquely
}

// readProcess reads the process's line of the process table. The name in it is put between parentheses and may contain
// anything, so the fields are counted from the last one.
func readProcess(pid int) (process, bool) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false // it has ended
	}
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	const state, parent, startTime = 0, 1, 19
	if len(fields) <= startTime {
		return process{}, false
	}
	ppid, err := strconv.Atoi(string(fields[parent]))
	if err != nil {
		return process{}, false
	}
	dead := fields[state][0] == 'Z' || fields[state][0] == 'X'
	return process{pid, ppid, dead, string(fields[startTime])}, true
}

// descendants returns all processes below this one, parents before their children.
func descendants() []process {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1) // what has been read is what there is
	children := make(map[int][]process)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, ok := readProcess(pid); ok {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	below := children[os.Getpid()]
	for i := 0; i < len(below); i++ {
		below = append(below, children[below[i].pid]...)
	}
	return below
}

// othersLeft reports whether there is a descendant other than leader. A zombie counts: it is somebody's child, and will
// be ours to reap when that one ends as well.
func othersLeft(leader int) bool {
	return slices.ContainsFunc(descendants(), func(p process) bool { return p.pid != leader })
}

// signalGroup sends sig to the group of leader, which this process has not reaped, so that the id is still its own.
func signalGroup(leader int, sig syscall.Signal) { _ = syscall.Kill(-leader, sig) } // ESRCH: nobody there

// signalAll sends sig to the group of leader in one step, and then to every descendant outside of it.
func signalAll(leader int, sig syscall.Signal) {
	signalGroup(leader, sig)
	for _, p := range descendants() {
		if group, err := syscall.Getpgid(p.pid); p.zombie || err != nil || group == leader {
			continue
		}
		signalOne(p, sig)
	}
}

// signalOne signals exactly this process: its parent may have reaped it meanwhile, and its pid may be a stranger's.
func signalOne(p process, sig syscall.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			_ = syscall.Kill(p.pid, sig) // before Linux 5.3 there is nothing better
		}
		return
	}
	defer unix.Close(fd)
	if now, ok := readProcess(p.pid); ok && now.born == p.born {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0) // it may have ended
	}
}

// status is what has become of the command.
type status struct {
	exited, suspended bool
	code, signal      int
}

// The codes of a waitid answer (CLD_*), and where its fields are on all Linux ports of Go.
const (
	cldExited  = 1
	cldStopped = 5
)

// look finds out about leader without reaping it: as long as it is a zombie nobody else can get its id.
func look(leader int) status {
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, leader, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil); err == nil && info.Signo != 0 {
		return decode(&info)
	}
	info = unix.Siginfo{}
	if err := unix.Waitid(unix.P_PID, leader, &info, unix.WSTOPPED|unix.WNOHANG, nil); err == nil && info.Signo != 0 && info.Code == cldStopped {
		sig := syscall.Signal(childStatus(&info))
		return status{suspended: sig == syscall.SIGTSTP || sig == syscall.SIGTTIN || sig == syscall.SIGTTOU}
	}
	return status{}
}

func decode(info *unix.Siginfo) status {
	if info.Code == cldExited {
		return status{exited: true, code: childStatus(info)}
	}
	return status{exited: true, code: -1, signal: childStatus(info)}
}

// reapOrphans reaps children other than leader that have ended.
func reapOrphans(leader int) {
	for _, p := range descendants() {
		if p.zombie && p.parent == os.Getpid() && p.pid != leader {
			reap(p.pid)
		}
	}
}

func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// endAll is the parent's part when the guardian has been killed: everybody below is an orphan of it, and ends now.
func endAll(leader int) {
	for {
		below := descendants()
		if len(below) == 0 {
			return
		}
		for _, p := range below {
			switch {
			case !p.zombie:
				signalOne(p, syscall.SIGKILL)
			case p.parent == os.Getpid():
				reap(p.pid)
			}
		}
		pause := time.NewTimer(2 * time.Millisecond)
		<-pause.C
	}
}
