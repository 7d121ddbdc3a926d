// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/internal/clock"
)

// slot is the place of a worker: one process after the other.
type slot struct {
	number int
	cfg    workerConfig // of the first process, but for what differs
	dir    string

	mu      sync.Mutex
	process *os.Process // nil while none runs
	lives   int
	killed  bool // the process was told to die
}

// signal sends a signal to the process, and reports false if there is none.
func (s *slot) signal(sig syscall.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return false
	}
	s.killed = s.killed || sig == syscall.SIGKILL
	return s.process.Signal(sig) == nil
}

// run keeps a process running until ctx ends. A process that dies without having been killed is an error.
func (s *slot) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := s.live(ctx); err != nil {
			return err
		}
		_ = clock.Wait(ctx, 300*time.Millisecond) // the loop sees its end
	}
	return nil
}

// live starts a process and waits for its end.
func (s *slot) live(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s.mu.Lock()
	cfg := s.cfg
	cfg.Slot, cfg.Life = s.number, s.lives
	cfg.Log, cfg.Last = s.file("log", s.lives), s.file("last", s.lives)
	s.lives++
	s.killed = false
	s.mu.Unlock()
	text, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd := exec.Command(program) // not by ctx, which would kill it: it is told to end
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	s.mu.Lock()
	s.process = cmd.Process
	s.mu.Unlock()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		s.signal(syscall.SIGCONT)
		s.signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.NewTimer(20 * time.Second).C:
			s.signal(syscall.SIGKILL)
		}
	})
	err = cmd.Wait()
	close(ended)
	stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = nil
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && s.killed {
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker %d, life %d: %w: %s", s.number, s.lives-1, err, stderr.String())
	}
	return nil
}

func (s *slot) file(kind string, life int) string {
	return filepath.Join(s.dir, fmt.Sprintf("w%d.%d.%s", s.number, life, kind))
}

// collect reads what all processes of the slot have left.
func (s *slot) collect(h *history) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for life := range s.lives {
		last, err := readLast(s.file("last", life), fmt.Sprintf("w%d.%d", s.number, life))
		if err != nil {
			return err
		}
		if err := readLog(s.file("log", life), last, h); err != nil {
			return err
		}
	}
	h.Deaths += max(0, s.lives-1)
	return nil
}
