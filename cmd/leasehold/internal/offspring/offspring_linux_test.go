// SPDX-License-Identifier: Apache-2.0

package offspring

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain also plays the parent that is killed: it starts a sleeper and prints its pid.
func TestMain(m *testing.M) {
	if os.Getenv("OFFSPRING_PARENT") == "" {
		os.Exit(m.Run())
	}
	c, err := Start(exec.Command("sleep", "300"), syscall.SIGKILL)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if os.Getenv("OFFSPRING_PARENT") == "stop" {
		_ = c.Signal(syscall.SIGSTOP)
	}
	fmt.Println(c.Pid())
	<-c.Done()
}

func TestStart_ChildDiesWithItsKilledParent(t *testing.T) {
	for _, mode := range []string{"run", "stop"} {
		t.Run(mode, func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "OFFSPRING_PARENT="+mode)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("the parent said %q", line)
			}
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			awaitEnd(t, fd)
		})
	}
}

// awaitEnd waits until the process behind the pidfd has ended.
func awaitEnd(t *testing.T, fd int) {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int((30 * time.Second).Milliseconds()))
	if err != nil || n != 1 {
		t.Fatalf("the child outlives its parent (%d, %v)", n, err)
	}
}

func TestChild_KillEndsAStoppedOne(t *testing.T) {
	c, err := Start(exec.Command("sleep", "300"), syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Signal(syscall.SIGCONT); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to a reaped child: %v, want ErrProcessDone", err)
	}
	if c.Err() == nil {
		t.Error("a killed child ended without error")
	}
}

func TestStart_ReportsWhatCannotStart(t *testing.T) {
	if _, err := Start(exec.Command("/does/not/exist"), syscall.SIGKILL); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}
