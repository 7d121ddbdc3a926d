// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/offspring"
	"example.com/leasehold/internal/machineclock"
)

// crew is the worker processes as their parent sees them. Each has one goroutine that reads its reports; they end when
// the processes do, and dismiss waits for both.
type crew struct {
	workers []*workman
	reports chan tagged
	leave   chan struct{} // closed by dismiss: nobody reads reports any more
	readers sync.WaitGroup
}

type workman struct {
	name  string
	child *offspring.Child
	stdin io.Closer
	pen   *pen // to stdin
}

// tagged is a report with its sender's index. An err stands for the end of the sender.
type tagged struct {
	worker int
	report
	err error
}

// muster starts one worker for each name by running program with args. If one cannot start, none is left behind.
func muster(names []string, program string, args []string, brief briefing) (*crew, error) {
	c := &crew{reports: make(chan tagged, 64), leave: make(chan struct{})}
	for _, name := range names {
		brief.Name = name
		if err := c.add(program, args, brief); err != nil {
			c.dismiss(0)
			return nil, fmt.Errorf("start worker %s: %w", name, err)
		}
	}
	return c, nil
}

func (c *crew) add(program string, args []string, brief briefing) error {
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	// A pipe of our own, because the one of exec closes when the process ends, with reports still in it.
	stdout, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = theirs
	child, err := offspring.Start(cmd, syscall.SIGKILL)
	_ = theirs.Close() // the child has its own by now
	if err != nil {
		_ = stdout.Close()
		return err
	}
	w := &workman{name: brief.Name, child: child, stdin: stdin, pen: &pen{w: stdin}}
	index := len(c.workers)
	c.workers = append(c.workers, w)
	c.readers.Go(func() { c.read(index, stdout) })
	return w.pen.write(order{Do: doBrief, Brief: &brief})
}

func (c *crew) read(index int, stdout io.ReadCloser) {
	defer stdout.Close()
	send := func(t tagged) {
		select {
		case c.reports <- t:
		case <-c.leave:
		}
	}
	err := readLines(stdout, func(r report) { send(tagged{worker: index, report: r}) })
	if err == nil {
		err = errEnded
	}
	send(tagged{worker: index, report: report{At: machineclock.Now()}, err: err})
}

var errEnded = errors.New("the worker has ended")

// order tells one worker what to do.
func (c *crew) order(worker int, o order) error {
	if err := c.workers[worker].pen.write(o); err != nil {
		return fmt.Errorf("tell %s to %s: %w", c.workers[worker].name, o.Do, err)
	}
	return nil
}

// dismiss closes the workers' pipes, which tells them to leave, gives them grace and then kills them, stopped ones as
// well. It returns once all are gone, with the errors of those that did not leave well. It may be called again.
func (c *crew) dismiss(grace time.Duration) error {
	select {
	case <-c.leave:
		return nil
	default:
		close(c.leave)
	}
	for _, w := range c.workers {
		_ = w.stdin.Close() // it may have ended by itself
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	var errs []error
	for _, w := range c.workers {
		select {
		case <-w.child.Done():
		case <-late.C:
			late.Reset(0) // for the others
			w.child.Kill()
		}
		if err := w.child.Err(); err != nil {
			errs = append(errs, fmt.Errorf("worker %s: %w", w.name, err))
		}
	}
	c.readers.Wait()
	return errors.Join(errs...)
}
