// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"example.com/leasehold/internal/machineclock"
	"golang.org/x/sys/windows"
)

// Run is a command in a job object of its own, which ends with all its processes when its last handle closes: when this
// process ends, however that comes. Nothing ends it while this process is suspended.
//
// One goroutine belongs to it, watch, started by Start, which ends when nobody is left.
type Run struct {
	cmd    Command
	child  *exec.Cmd
	job    windows.Handle
	wake   chan struct{}
	exited chan struct{} // closed when the command itself has ended

	mu       sync.Mutex // guards what follows
	deadline machineclock.Instant
	kill     bool

	done   chan struct{}
	result Result // written before done is closed
}

// Prepare makes the job object, not yet the command. The caller must Start or Kill.
func Prepare(c Command) (*Run, error) {
	job, err := newJob()
	if err != nil {
		return nil, fmt.Errorf("guard: job object: %w", err)
	}
	return &Run{
		cmd: c, job: job,
		wake: make(chan struct{}, 1), exited: make(chan struct{}), done: make(chan struct{}),
	}, nil
}

// Start starts the command, which must be gone before the deadline. A command that cannot be executed is a
// [*StartError]; if the deadline is so near that it would have to be stopped at once, the error is ErrTooLate. With an
// error nothing is left behind. Call it once.
func (r *Run) Start(deadline machineclock.Instant) error {
	err := r.start(deadline)
	if err != nil {
		_ = windows.CloseHandle(r.job) // it is empty
		close(r.done)
		return err
	}
	go r.watch()
	return nil
}

func (r *Run) start(deadline machineclock.Instant) error {
	c := r.cmd
	if machineclock.Now() >= deadline.Add(-c.Margin-c.Grace) {
		return ErrTooLate
	}
	r.Extend(deadline)
	r.child = &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := r.child.Start(); err != nil {
		if errno, ok := errors.AsType[syscall.Errno](err); ok {
			err = errno
		}
		return &StartError{c.Path, err}
	}
	if err := assign(r.job, r.child.Process.Pid); err != nil {
		_ = r.child.Process.Kill()
		_ = r.child.Wait()
		return fmt.Errorf("guard: put the command into its job: %w", err)
	}
	return nil
}

func newJob() (windows.Handle, error) {
	job, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return 0, err
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE},
	}
	_, err = windows.SetInformationJobObject(job, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		_ = windows.CloseHandle(job)
		return 0, err
	}
	return job, nil
}

func assign(job windows.Handle, pid int) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE, false, uint32(pid))
	if err != nil {
		return err
	}
	defer windows.CloseHandle(p)
	return windows.AssignProcessToJobObject(job, p)
}

func (r *Run) watch() {
	defer close(r.done)
	go func() {
		defer close(r.exited)
		_ = r.child.Wait() // the state says how it ended
	}()
	look := time.NewTicker(50 * time.Millisecond) // timers may stand still while the machine sleeps: look at the clock
	defer look.Stop()
	for exited := false; !exited; {
		select {
		case <-r.exited:
			exited = true
		case <-look.C:
		case <-r.wake:
		}
		r.mu.Lock()
		expiring, kill := machineclock.Now() >= r.deadline.Add(-r.cmd.Margin-r.cmd.Grace), r.kill
		r.mu.Unlock()
		if (expiring || kill) && !exited {
			if expiring {
				r.notify(Expiring)
			}
			r.notify(Killing)
			_ = windows.TerminateJobObject(r.job, 1) // it fails only if nobody is in it any more
			<-r.exited
			exited = true
		}
	}
	_ = windows.TerminateJobObject(r.job, 1) // what the command has left behind
	_ = windows.CloseHandle(r.job)
	r.result = Result{Code: r.child.ProcessState.ExitCode()}
}

func (r *Run) notify(e Event) {
	if r.cmd.Notify != nil {
		r.cmd.Notify(e)
	}
}

// Pid returns the process id of the command.
func (r *Run) Pid() int { return r.child.Process.Pid }

// Extend moves the deadline. An earlier one than before is taken as well.
func (r *Run) Extend(deadline machineclock.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = deadline
}

// Signal ends the command for the signals that end things. Windows has no others.
func (r *Run) Signal(sig syscall.Signal) {
	if sig == syscall.SIGTERM || sig == syscall.SIGKILL {
		r.Kill()
	}
	// An interrupt from the keyboard reaches the command by itself: it shares the console.
}

// Stop ends everything now: there is no gentler way.
func (r *Run) Stop() { r.Kill() }

// Kill ends everything now.
func (r *Run) Kill() {
	r.mu.Lock()
	r.kill = true
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Done is closed when the command and all its descendants are gone.
func (r *Run) Done() <-chan struct{} { return r.done }

// Result returns how the command ended. It waits for Done.
func (r *Run) Result() Result {
	<-r.done
	return r.result
}

// Guardian is not needed on Windows.
func Guardian() error { return errors.ErrUnsupported }
