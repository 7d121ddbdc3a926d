// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guard

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/internal/machineclock"
)

// Parent and guardian talk in lines of JSON over two pipes, which the guardian finds at these descriptors.
const (
	controlFD = 3 // the guardian reads
	reportFD  = 4 // the guardian writes
)

// control is a message to the guardian. The first one carries the spec and a deadline; a deadline may be in any.
type control struct {
	Spec     *spec                `json:"spec,omitempty"`
	Deadline machineclock.Instant `json:"deadline,omitempty"`
	Signal   syscall.Signal       `json:"signal,omitempty"`
	Stop     bool                 `json:"stop,omitempty"`
	Kill     bool                 `json:"kill,omitempty"`
}

type spec struct {
	Path       string        `json:"path"`
	Args       []string      `json:"args"`
	Env        []string      `json:"env"`
	Margin     time.Duration `json:"margin"`
	Grace      time.Duration `json:"grace"`
	Foreground bool          `json:"foreground"` // the command's group gets the terminal at descriptor 0
}

// report is a message from the guardian. Ready is the first one, Gone the last.
type report struct {
	Ready   bool          `json:"ready,omitempty"`
	Late    bool          `json:"late,omitempty"`    // it was not started: the deadline is near
	Started int           `json:"started,omitempty"` // process id, and group id, of the command
	Failed  syscall.Errno `json:"failed,omitempty"`  // it could not be started
	Event   Event         `json:"event,omitempty"`
	Exited  bool          `json:"exited,omitempty"`
	Code    int           `json:"code,omitempty"`
	Signal  int           `json:"signal,omitempty"`
	Gone    bool          `json:"gone,omitempty"` // nobody is left
}

// pen writes lines of JSON, whole ones.
type pen struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *pen) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.w.Write(append(line, '\n'))
	return err
}

func readLines[T any](r io.Reader, fn func(T)) error {
	// A decoder, not a scanner: an environment can be megabytes long.
	d := json.NewDecoder(bufio.NewReader(r))
	for {
		var v T
		switch err := d.Decode(&v); {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("guard: read a message: %w", err)
		}
		fn(v)
	}
}
