// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// A fleet is the processes that stand for election. Each place in it has an etcd client's links, so that it can be cut
// off; the processes come and go.
type fleet struct {
	dir     string
	args    []string // of every process
	members []*member

	mu      sync.Mutex
	ledgers []ledgerFile // of all processes that ever were
}

type ledgerFile struct {
	path   string
	killed bool
}

// A member is a place in the fleet. It is used by one goroutine.
type member struct {
	fleet *fleet
	index int
	links *leaseholdtest.Client
	cmd   *exec.Cmd // nil: no process
	ended chan error
	file  int // of the process, in ledgers
	runs  int
}

func newFleet(cluster *leaseholdtest.Cluster, size int, dir string, args ...string) (*fleet, error) {
	f := &fleet{dir: dir, args: args}
	for i := range size {
		links, err := cluster.NewClient(leaseholdtest.ClientOptions{})
		if err != nil {
			return nil, err
		}
		f.members = append(f.members, &member{fleet: f, index: i, links: links})
	}
	return f, nil
}

// start starts the member's process.
func (m *member) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	m.runs++
	path := filepath.Join(m.fleet.dir, fmt.Sprintf("%d-%d", m.index, m.runs))
	args := append([]string{childCommand, "-endpoints", strings.Join(m.links.Endpoints(), ","), "-ledger", path}, m.fleet.args...)
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), childVariable+"=1")
	if err := cmd.Start(); err != nil {
		return err
	}
	m.fleet.mu.Lock()
	m.file = len(m.fleet.ledgers)
	m.fleet.ledgers = append(m.fleet.ledgers, ledgerFile{path: path})
	m.fleet.mu.Unlock()
	m.cmd, m.ended = cmd, make(chan error, 1)
	go func() { m.ended <- cmd.Wait() }()
	return m.ready(path)
}

// ready waits until the process has opened its ledger: from then on it takes signals as they are meant.
func (m *member) ready(path string) error {
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-look.C:
		case err := <-m.ended:
			m.ended <- err
			return fmt.Errorf("process %d has ended at once: %w", m.index, err)
		}
	}
}

// childVariable tells the binary of a test that it is a process of the fleet.
const childVariable = "ELECTIONLAB_CHILD"

func (m *member) signal(s os.Signal) error { return m.cmd.Process.Signal(s) }

// stop asks the process to end and waits for it.
func (m *member) stop() error {
	if m.cmd == nil {
		return nil
	}
	defer func() { m.cmd = nil }()
	if err := m.signal(syscall.SIGTERM); err != nil {
		return err
	}
	const patience = 30 * time.Second
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-m.ended:
		if err != nil {
			return fmt.Errorf("process %d: %w", m.index, err)
		}
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("process %d has not ended within %v", m.index, patience), m.kill())
	}
}

// kill ends the process at once.
func (m *member) kill() error {
	if m.cmd == nil {
		return nil
	}
	defer func() { m.cmd = nil }()
	m.fleet.mu.Lock()
	m.fleet.ledgers[m.file].killed = true
	m.fleet.mu.Unlock()
	if err := m.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-m.ended
	return nil
}

// reigns reads what all processes have entered so far.
func (f *fleet) reigns() ([]reign, error) {
	f.mu.Lock()
	ledgers := append([]ledgerFile(nil), f.ledgers...)
	f.mu.Unlock()
	var all []reign
	for _, l := range ledgers {
		reigns, err := readLedger(l.path, l.killed)
		if err != nil {
			return nil, err
		}
		all = append(all, reigns...)
	}
	return all, nil
}

// close ends all processes, in the orderly way, and closes the links.
func (f *fleet) close() error {
	errs := make([]error, len(f.members))
	var wg sync.WaitGroup
	for i, m := range f.members {
		wg.Go(func() { errs[i] = errors.Join(m.stop(), m.links.Close()) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func itoa(n int) string { return strconv.Itoa(n) }
