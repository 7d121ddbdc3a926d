// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"example.com/leasehold/internal/machineclock"
)

// Guardian is the body of the hidden subcommand that [Start] runs. It returns when everything that it has started is
// gone.
//
// All decisions are made in this one goroutine, locked to its thread, because the death signal of the command hangs on
// the thread that made it. Beside it are a reader of the control pipe and the runtime's of signals.
func Guardian() error {
	runtime.LockOSThread()
	if !isPipe(controlFD) || !isPipe(reportFD) {
		return errors.New("guard: the guardian is started by leasehold itself only")
	}
	controlPipe, reportPipe := os.NewFile(controlFD, "control"), os.NewFile(reportFD, "report")
	syscall.CloseOnExec(controlFD) // the command must hold neither end: both sides notice by the close
	syscall.CloseOnExec(reportFD)
	if err := adoptOrphans(); err != nil {
		return err
	}
	deaf()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	g := &guardian{pen: &pen{w: reportPipe}, alarm: newAlarm()}
	defer g.alarm.stop()
	controls := make(chan control)
	go func() {
		defer close(controls)
		_ = readLines(controlPipe, func(c control) { controls <- c }) // a broken line ends it like a closed pipe
	}()
	g.report(report{Ready: true})
	first, ok := <-controls
	if !ok || first.Spec == nil {
		return nil // there is nothing to guard after all
	}
	if !g.start(first) {
		return nil
	}
	urgent()
	g.watch(controls, children)
	return nil
}

func isPipe(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil && st.Mode&syscall.S_IFMT == syscall.S_IFIFO
}

// deaf keeps signals that are meant for the command, or come from the terminal, from ending the guardian. They are
// caught, not ignored, because the command would inherit that; what was ignored before stays so, for nohup.
func deaf() {
	caught := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
}

// phase is how far the end has come.
type phase int

const (
	running  phase = iota
	stopping       // SIGTERM was sent
	killing        // SIGKILL was sent
)

type guardian struct {
	spec
	pen      *pen
	alarm    *alarm
	pid      int
	deadline machineclock.Instant
	phase    phase
	killAt   machineclock.Instant // while stopping: when the grace ends
	exited   bool                 // the command itself has ended; on Linux it is still a zombie, so that its group id stays ours
}

// report tells the parent, if there still is one.
func (g *guardian) report(r report) { _ = g.pen.write(r) }

func (g *guardian) start(first control) bool {
	g.spec, g.deadline = *first.Spec, first.Deadline
	if machineclock.Now() >= g.next() {
		g.report(report{Late: true})
		return false
	}
	attr := &syscall.ProcAttr{
		Env:   g.Env,
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Foreground: g.Foreground},
	}
	killedWithParent(attr.Sys)
	pid, err := syscall.ForkExec(g.Path, g.Args, attr)
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL // a NUL byte in an argument, say
		}
		g.report(report{Failed: errno})
		return false
	}
	g.pid = pid
	g.report(report{Started: pid})
	return true
}

// watch decides until nobody is left.
func (g *guardian) watch(controls <-chan control, children <-chan os.Signal) {
	// A look now and then finds what no signal tells: a descendant of ours that is a child of another process and ends.
	sweep := time.NewTicker(20 * time.Millisecond)
	defer sweep.Stop()
	for {
		g.act(machineclock.Now())
		g.alarm.set(g.next())
		var sweeps <-chan time.Time
		if g.exited || g.phase == killing {
			sweeps = sweep.C
		}
		select {
		case c, ok := <-controls:
			if !ok {
				controls = nil
				g.stop() // the parent is dead: nobody renews any more
				continue
			}
			g.obey(c)
			continue
		case <-children:
		case <-g.alarm.C:
		case <-sweeps:
		}
		if g.collect() {
			g.report(report{Gone: true})
			return
		}
	}
}

func (g *guardian) obey(c control) {
	if c.Deadline != 0 {
		g.deadline = c.Deadline
	}
	if c.Signal != 0 && !g.exited {
		signalGroup(g.pid, c.Signal)
	}
	if c.Stop {
		g.stop()
	}
	if c.Kill {
		g.kill()
	}
}

// act does what the clock demands.
func (g *guardian) act(now machineclock.Instant) {
	last := g.deadline.Add(-g.Margin)
	if g.phase == running && now >= last.Add(-g.Grace) {
		g.report(report{Event: Expiring})
		g.stop()
	}
	if g.phase == stopping && now >= min(last, g.killAt) {
		g.kill()
	}
}

// next is the instant at which the clock will demand something.
func (g *guardian) next() machineclock.Instant {
	last := g.deadline.Add(-g.Margin)
	switch g.phase {
	case running:
		return last.Add(-g.Grace)
	case stopping:
		return min(last, g.killAt)
	default:
		return machineclock.Now().Add(10 * time.Millisecond) // kill again whoever was born meanwhile
	}
}

func (g *guardian) stop() {
	if g.phase != running {
		return
	}
	g.phase, g.killAt = stopping, machineclock.Now().Add(g.Grace)
	signalAll(g.pid, syscall.SIGTERM)
	signalAll(g.pid, syscall.SIGCONT) // a stopped process would not see it
}

func (g *guardian) kill() {
	if g.phase != killing {
		g.phase = killing
		g.report(report{Event: Killing})
	}
	signalAll(g.pid, syscall.SIGKILL)
}

// collect looks at who has ended and reports whether nobody is left.
func (g *guardian) collect() bool {
	if !g.exited {
		switch status := look(g.pid); {
		case status.exited:
			g.exited = true
			g.report(report{Exited: true, Code: status.code, Signal: status.signal})
			reapOrphans(g.pid)
			if othersLeft(g.pid) && g.phase == running {
				g.report(report{Event: Leftovers})
				g.stop()
			}
		case status.suspended && g.Foreground:
			// Whoever waits at the terminal would wait for ever: the shell only knows our parent, which goes on
			// renewing. A job under a lock is not put aside.
			signalGroup(g.pid, syscall.SIGCONT)
			g.report(report{Event: Resumed})
		}
	}
	if g.phase == killing {
		signalAll(g.pid, syscall.SIGKILL)
	}
	reapOrphans(g.pid)
	if !g.exited || othersLeft(g.pid) {
		return false
	}
	reap(g.pid)
	return true
}
