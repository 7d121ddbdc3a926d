// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// TestRun_LastWriteComesBeforeTheSuccessorsFirst is the promise of the command: 50 commands that ignore every gentle
// signal are left without a working leasehold, in different ways, at the smallest TTL. On the clock of the machine each
// one's last write lies before its successor's first.
func TestRun_LastWriteComesBeforeTheSuccessorsFirst(t *testing.T) {
	c := cluster(t)
	ways := []string{"stopped", "killed", "guardian killed", "cut off", "cut off one way"}
	const runs, atOnce = 50, 5
	var mu sync.Mutex
	shortest := time.Hour
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i := range runs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			way := ways[i%len(ways)]
			t.Run(fmt.Sprintf("%s %d", way, i), func(t *testing.T) {
				gap := handOver(t, c, fmt.Sprintf("name%d", i), way)
				mu.Lock()
				defer mu.Unlock()
				shortest = min(shortest, gap)
			})
		})
	}
	wg.Wait()
	t.Logf("%d runs; the shortest time between a last and a first write is %v", runs, shortest)
}

// handOver lets one command hold the name, breaks its leasehold, and measures when the next one begins.
func handOver(t *testing.T, c *leaseholdtest.Cluster, name, way string) time.Duration {
	dir := t.TempDir()
	old, next := filepath.Join(dir, "old"), filepath.Join(dir, "next")
	links := c.Client(t)
	script := `setsid "$0" "$1" "$2" & wait` // a session of its own, to make it harder
	holder := writing(t, old, func() *process {
		return command(t, "run", name, "--ttl", "1s", "--endpoints", strings.Join(links.Endpoints(), ","), "--", "sh", "-c", script, os.Args[0], stamperArg, old)
	})
	var err error
	switch way {
	case "stopped":
		err = holder.Process.Signal(syscall.SIGSTOP)
	case "killed":
		err = holder.Process.Kill()
	case "guardian killed":
		err = killGuardianOf(holder.Process.Pid)
	case "cut off":
		links.Blackhole(leaseholdtest.Both)
	case "cut off one way":
		links.Blackhole(leaseholdtest.Down)
	}
	if err != nil {
		// On a machine that is busy beyond measure it may have lost its leasehold by itself: that is as good a way.
		select {
		case <-holder.ended():
			t.Logf("it ended before: %v: %s", err, &holder.err)
		case <-time.After(time.Minute):
			t.Fatal(err)
		}
	}
	waiter := writing(t, next, func() *process {
		return command(t, "run", name, "--ttl", "1s", "--", os.Args[0], stamperArg, next)
	})
	_ = waiter.Process.Kill() // it may have ended
	waiter.code()
	before, after := instants(t, old), instants(t, next)
	if len(before) == 0 || len(after) == 0 {
		t.Fatal("nothing was written")
	}
	gap := after[0].Sub(before[len(before)-1])
	if gap <= 0 {
		t.Errorf("the first command wrote %v after the second had begun", -gap)
	}
	return gap
}

// writing starts a process and waits until its command writes. On a machine that is busy beyond measure the renewals of a
// process may be too late before its command has begun; then another one is started.
func writing(t *testing.T, path string, make func() *process) *process {
	t.Helper()
	for range 20 {
		p := make().start(t)
		ended := p.ended()
		eventually(t, "a command writes, or its leasehold has ended", func() bool {
			select {
			case <-ended:
				return true
			default:
				return written(path)()
			}
		})
		if written(path)() {
			return p
		}
		t.Logf("did not come to write: %s", &p.err)
	}
	t.Fatal("no command has written anything")
	return nil
}

// killGuardianOf kills the only child of a leasehold.
func killGuardianOf(pid int) error {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		var child int
		if text, err := os.ReadFile(task); err == nil {
			if _, err := fmt.Sscan(string(text), &child); err == nil {
				return syscall.Kill(child, syscall.SIGKILL)
			}
		}
	}
	return fmt.Errorf("process %d has no child", pid)
}
