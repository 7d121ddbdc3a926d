// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
	"example.com/leasehold/internal/machineclock"
)

// Run is a command under guard.
//
// One goroutine belongs to it, watch, started by Prepare. It reads the guardian's reports, is the only writer of result,
// and ends when nobody of the command's processes is left; Done says so.
type Run struct {
	cmd      Command
	guardian *offspring.Child
	pen      *pen // to the guardian
	control  *os.File
	terminal *terminal // nil: the command does not get one

	ready   chan struct{} // closed when the guardian listens, or has ended
	started chan report   // exactly one: how the start went
	pid     int           // of the command; fixed by Start
	done    chan struct{}
	result  Result // written before done is closed
}

// Prepare starts the guardian, not yet the command: on a busy machine that takes a while, and the deadline should be
// fresh. The caller must Start or Kill. Prepare makes this process the reaper of its descendants' orphans (Linux), for good.
func Prepare(c Command) (*Run, error) {
	if err := adoptOrphans(); err != nil {
		return nil, fmt.Errorf("guard: adopt orphans: %w", err)
	}
	controlR, controlW, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	reportR, reportW, err := os.Pipe()
	if err != nil {
		controlR.Close()
		controlW.Close()
		return nil, fmt.Errorf("guard: %w", err)
	}
	guardian := exec.Command(c.Guardian[0], c.Guardian[1:]...)
	guardian.Stdin, guardian.Stdout, guardian.Stderr = os.Stdin, os.Stdout, os.Stderr
	guardian.ExtraFiles = []*os.File{controlFD - 3: controlR, reportFD - 3: reportW}
	guardian.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a kill of our group must not reach it
	r := &Run{
		cmd: c, pen: &pen{w: controlW}, control: controlW, terminal: ownTerminal(),
		ready: make(chan struct{}), started: make(chan report, 1), done: make(chan struct{}),
	}
	// The guardian also sees the pipe close; the signal only hurries it.
	r.guardian, err = offspring.Start(guardian, syscall.SIGTERM)
	controlR.Close() // the guardian's ends are the guardian's alone, or no close would be noticed
	reportW.Close()
	if err != nil {
		controlW.Close()
		reportR.Close()
		return nil, fmt.Errorf("guard: start the guardian: %w", err)
	}
	r.terminal.lent()
	go r.watch(reportR)
	<-r.ready
	return r, nil
}

// Start starts the command, which must be gone before the deadline. A command that cannot be executed is a
// [*StartError]; if the deadline is so near that it would have to be stopped at once, the error is ErrTooLate. With an
// error nothing is left behind. Call it once.
func (r *Run) Start(deadline machineclock.Instant) error {
	err := r.pen.write(control{Deadline: deadline, Spec: &spec{
		Path: r.cmd.Path, Args: r.cmd.Args, Env: r.cmd.Env, Margin: r.cmd.Margin, Grace: r.cmd.Grace, Foreground: r.terminal != nil,
	}})
	first := <-r.started
	if first.Started != 0 {
		r.pid = first.Started
		return nil
	}
	<-r.done
	switch {
	case first.Failed != 0:
		return &StartError{r.cmd.Path, first.Failed}
	case first.Late:
		return ErrTooLate
	default:
		return fmt.Errorf("guard: the guardian ended early: %w", errors.Join(err, r.guardian.Err()))
	}
}

// watch reads reports until the guardian has none left.
func (r *Run) watch(reports *os.File) {
	defer close(r.done)
	defer r.control.Close()
	defer reports.Close()
	ready := sync.OnceFunc(func() { close(r.ready) })
	result, gone, pid := Result{Unknown: true}, false, -1
	_ = readLines(reports, func(m report) { // a broken line is a guardian that is no more, which is looked at below
		switch {
		case m.Ready:
			ready()
		case m.Started != 0 || m.Failed != 0 || m.Late:
			pid = m.Started
			r.started <- m
		case m.Exited:
			result = Result{Code: m.Code, Signal: m.Signal}
		case m.Gone:
			gone = true
		case m.Event != 0 && r.cmd.Notify != nil:
			r.cmd.Notify(m.Event)
		}
	})
	<-r.guardian.Done()
	if !gone && pid > 0 {
		// The guardian was killed. The kernel has killed the command; its other descendants have come to us.
		endAll(pid)
	}
	r.terminal.takeBack()
	r.result = result
	if pid == -1 {
		r.started <- report{}
	}
	ready()
}

// Pid returns the process id of the command, which is also the id of its group.
func (r *Run) Pid() int { return r.pid }

// Extend moves the deadline. An earlier one than before is taken as well.
func (r *Run) Extend(deadline machineclock.Instant) { r.send(control{Deadline: deadline}) }

// Signal sends sig to the command's process group.
func (r *Run) Signal(sig syscall.Signal) { r.send(control{Signal: sig}) }

// Stop asks the command to end, and ends it after its grace.
func (r *Run) Stop() { r.send(control{Stop: true}) }

// Kill ends everything now. Before Start it only sends the guardian away.
func (r *Run) Kill() { r.send(control{Kill: true}) }

// send tells the guardian. If it is dead or has finished, there is nobody left to tell anything about.
func (r *Run) send(c control) { _ = r.pen.write(c) }

// Done is closed when the command and all its descendants are gone.
func (r *Run) Done() <-chan struct{} { return r.done }

// Result returns how the command ended. It waits for Done.
func (r *Run) Result() Result {
	<-r.done
	return r.result
}
