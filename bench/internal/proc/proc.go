// SPDX-License-Identifier: Apache-2.0

// Package proc runs parts of a program in processes of their own, so that what each of them costs can be told apart and
// so that one can be killed. A part is the same binary, executed again in a role, which takes questions on its standard
// input and answers them on its standard output, one JSON value a line. It ends when its input does, and so with the
// process that started it, however that ends.
package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// roleVariable names the role in the environment of a started process, argsVariable what Start was given for it.
const (
	roleVariable = "LEASEHOLD_BENCH_ROLE"
	argsVariable = "LEASEHOLD_BENCH_ARGS"
)

// Process is a started role. Its methods are safe for concurrent use; questions are asked one at a time.
type Process struct {
	role string
	cmd  *exec.Cmd

	mu  sync.Mutex // one question at a time
	in  io.WriteCloser
	out *bufio.Reader

	ended chan struct{} // closed when the process has been waited for
}

// question and answer are the lines of the protocol. The first answer, to no question, says that the role is ready.
type question struct {
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args,omitempty"`
}

type answer struct {
	Error string          `json:"error,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Start executes this program again in a role and waits until the role is ready or has failed. Its standard error is
// this process's.
func Start(role string, args any) (*Process, error) {
	text, err := json.Marshal(args)
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	p := &Process{role: role, cmd: exec.Command(self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+role, argsVariable+"="+string(text))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	if err := p.read(nil); err != nil {
		p.Kill()
		return nil, fmt.Errorf("start a %s: %w", role, err)
	}
	return p, nil
}

// Ask puts a question to the process and decodes the answer into value, which may be nil.
func (p *Process) Ask(verb string, args, value any) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := question{Verb: verb}
	var err error
	if args != nil {
		if q.Args, err = json.Marshal(args); err != nil {
			return fmt.Errorf("ask a %s for %s: %w", p.role, verb, err)
		}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask a %s for %s: %w", p.role, verb, err)
	}
	if _, err = p.in.Write(append(line, '\n')); err == nil {
		err = p.read(value)
	}
	if err != nil {
		return fmt.Errorf("ask a %s for %s: %w", p.role, verb, err)
	}
	return nil
}

func (p *Process) read(value any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the process has ended: %w", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		return fmt.Errorf("not an answer: %q: %w", line, err)
	}
	if a.Error != "" {
		return errors.New(a.Error)
	}
	if value == nil {
		return nil
	}
	return json.Unmarshal(a.Value, value)
}

// Usage asks the process for what it has used so far.
func (p *Process) Usage() (Usage, error) {
	var u Usage
	err := p.Ask("usage", nil, &u)
	return u, err
}

// Kill ends the process with SIGKILL, unless it has ended, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended, which is what is wanted
	p.wait()
}

// Stop closes the input of the process, and kills it if it has not ended within patience.
func (p *Process) Stop(patience time.Duration) {
	_ = p.in.Close()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer timer.Stop()
	p.wait()
}

func (p *Process) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Wait() // how it has ended does not matter any more
		close(p.ended)
	}
}
