// SPDX-License-Identifier: Apache-2.0

// Package offspring starts child processes that do not outlive this one.
//
// On Linux the kernel signals a child when its parent ends, for whatever reason, also when the child is stopped (a
// SIGKILL needs no cooperation). Elsewhere nothing of that kind exists: there a child must watch a pipe from its
// parent and leave when it closes, which children of this package should do in any case.
package offspring

import (
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Child is a started process. Its methods are safe for concurrent use.
//
// One goroutine belongs to it, locked to its thread from before the start until the child has ended and been reaped:
// Linux sends the parent-death signal when the *thread* that made the child ends, and the Go runtime ends idle
// threads when a goroutine exits locked to one.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after err is set
	err  error         // of Wait; written once before done is closed

	mu     sync.Mutex // held while signalling, never across a wait: a reaped pid may belong to somebody else
	reaped bool
}

// Start starts cmd and has it sent onDeath when this process ends (Linux). It fails as [exec.Cmd.Start] does.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Child, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	setDeathSignal(cmd.SysProcAttr, onDeath)
	c := &Child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go c.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.cmd.Start(); err != nil {
		started <- err
		return
	}
	started <- nil
	err := c.cmd.Wait()
	c.mu.Lock()
	c.reaped = true
	c.mu.Unlock()
	c.err = err
	close(c.done)
}

// Pid returns the child's process id.
func (c *Child) Pid() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended and been waited for.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err returns, after Done, what [exec.Cmd.Wait] returned; nil before.
func (c *Child) Err() error {
	select {
	case <-c.done:
		return c.err
	default:
		return nil
	}
}

// State returns how the child ended, after Done.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

// Signal signals the child. After its end it returns [os.ErrProcessDone].
func (c *Child) Signal(sig os.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return os.ErrProcessDone
	}
	return c.cmd.Process.Signal(sig)
}

// Kill ends the child, a stopped one as well, and waits until it is gone.
func (c *Child) Kill() {
	_ = c.Signal(os.Kill) // only fails if it has ended already
	<-c.done
}

// Self returns a path by which this very program can be started again, even if its file was replaced or removed.
func Self() (string, error) { return self() }
