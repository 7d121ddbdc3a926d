// SPDX-License-Identifier: Apache-2.0

// Package servers starts the real servers that the adapters are tested on: private instances from the installed binaries,
// on loopback ports and temporary data, which a test may kill and start again. A server ends with its test, also when
// the test's process dies.
package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is one private server.
type Server struct {
	// Name says what it is, in messages.
	Name string
	// Addr is host:port on loopback; it stays the same over restarts.
	Addr string
	// Dir holds the data.
	Dir string

	command func() *exec.Cmd
	log     *bytes.Buffer // what the processes print; read only after they have ended
	run     *run          // the current process, nil if there is none
}

// run is one process of a server.
type run struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has been waited for
	err   error         // why it ended; read after ended
}

// Host returns the host and the port of Addr.
func (s *Server) Host() (host string, port int) {
	host, p, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return "", 0
	}
	port, err = strconv.Atoi(p)
	if err != nil {
		return "", 0
	}
	return host, port
}

// launch starts the server for the first time and ends it with the test.
func (s *Server) launch(tb testing.TB) *Server {
	tb.Helper()
	s.log = &bytes.Buffer{}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() && s.log.Len() > 0 {
			tail := s.log.Bytes()
			tail = tail[max(0, len(tail)-4096):]
			tb.Logf("the end of what %s printed:\n%s", s.Name, tail)
		}
	})
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		tb.Fatal(err)
	}
	return s
}

// Start starts the server, which must not be running, and returns when it listens.
func (s *Server) Start(ctx context.Context) error {
	for {
		r := s.begin()
		s.run = r
		err := s.listening(ctx, r)
		if err == nil {
			return nil
		}
		s.Kill()
		if ctx.Err() != nil {
			return fmt.Errorf("start %s: %w", s.Name, err)
		}
		// Gone at once: what its killed predecessor left, such as shared memory in use, may take a moment to go.
	}
}

func (s *Server) begin() *run {
	r := &run{cmd: s.command(), ended: make(chan struct{})}
	r.cmd.Stdout, r.cmd.Stderr = s.log, s.log
	r.cmd.WaitDelay = 10 * time.Second // for what a child that was missed keeps open
	started := make(chan struct{})
	go func() {
		defer close(r.ended)
		// The kernel kills the child when the thread that started it ends, so that thread is kept for it.
		runtime.LockOSThread()
		r.err = r.cmd.Start()
		close(started)
		if r.err == nil {
			r.err = r.cmd.Wait()
		}
	}()
	<-started
	return r
}

// listening returns once the server accepts connections.
func (s *Server) listening(ctx context.Context, r *run) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-r.ended:
			return fmt.Errorf("it ended: %w", errors.Join(r.err, err))
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Kill ends the server and its children at once, as a crash of the machine's power would, except that what was handed to
// the kernel is kept.
func (s *Server) Kill() {
	r := s.run
	if r == nil {
		return
	}
	s.run = nil
	if r.cmd.Process != nil {
		children := childrenOf(r.cmd.Process.Pid)
		_ = r.cmd.Process.Kill() // it may have ended by itself
		for _, pid := range children {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	<-r.ended
}

// Signal sends a signal to the server's process: SIGSTOP halts it in the middle of whatever it does, SIGCONT lets it go on.
func (s *Server) Signal(signal syscall.Signal) error {
	if s.run == nil {
		return fmt.Errorf("%s is not running", s.Name)
	}
	return s.run.cmd.Process.Signal(signal)
}

// Restart kills the server and starts it again; ready is called until it returns nil.
func (s *Server) Restart(ctx context.Context, ready func(context.Context) error) error {
	s.Kill()
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.Await(ctx, ready)
}

// Await calls ready until it returns nil.
func (s *Server) Await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w", s.Name, errors.Join(ctx.Err(), err))
		}
	}
}

// childrenOf returns the direct children of a process; a server such as PostgreSQL puts them in sessions of their own.
func childrenOf(pid int) []int {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	var pids []int
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(content)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// freeAddr returns a loopback address that nobody listens on. Its port is below those that the kernel gives to outgoing
// connections, so that none of these takes it while the server is away.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	const first, last = 15_000, 32_000
	var lastErr error
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first)))
		listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", addr)
		if err == nil {
			err = listener.Close()
		}
		if err == nil {
			return addr
		}
		lastErr = err
	}
	tb.Fatal(lastErr)
	return ""
}

// tempDir returns a directory with a short name, because sockets have short names, that belongs to the owner of the
// server's processes.
func tempDir(tb testing.TB, owner *syscall.Credential) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fence-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		// A server that was just killed may still be writing its last file.
		for range 100 {
			if err = os.RemoveAll(dir); err == nil {
				return
			}
		}
		tb.Logf("remove %s: %v", dir, err)
	})
	if owner != nil {
		if err := os.Chown(dir, int(owner.Uid), int(owner.Gid)); err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}

// missing ends the test because a server is not installed: it skips it on a developer's machine and fails it in CI.
func missing(tb testing.TB, name, pkg string) {
	tb.Helper()
	message := fmt.Sprintf("%s is not installed; install it with: bash .ci/services.sh start (or: apt-get install %s)", name, pkg)
	if os.Getenv("CI") != "" {
		tb.Fatal(message)
	}
	tb.Skip(message)
}
