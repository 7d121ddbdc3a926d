// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "example.com/leasehold"
	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// The test binary is the command under test as well, and a command to be run by it.
const (
	mainVariable = "LEASEHOLD_TEST_MAIN"
	stamperArg   = "test-stamper"
)

func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 3 && os.Args[1] == stamperArg:
		playStamper(os.Args[2])
	case os.Getenv(mainVariable) != "":
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	default:
		os.Exit(m.Run())
	}
}

// playStamper ignores every gentle signal and appends the time to a file without end.
func playStamper(path string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		os.Exit(1)
	}
	for {
		fmt.Fprintln(f, machineclock.Now())
		time.Sleep(100 * time.Microsecond)
	}
}

// instants reads what a stamper has written; a line that it was killed in does not count.
func instants(t *testing.T, path string) []machineclock.Instant {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	var all []machineclock.Instant
	for line := range strings.Lines(string(whole)) {
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, machineclock.Instant(n))
	}
	return all
}

// eventually waits for cond, which nobody announces because it is in another process.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func written(path string) func() bool {
	return func() bool {
		info, err := os.Stat(path)
		return err == nil && info.Size() > 0
	}
}

// cluster starts etcd with terms of a second and points ETCDCTL_ENDPOINTS to it.
func cluster(t *testing.T) *leaseholdtest.Cluster {
	t.Helper()
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	t.Setenv("ETCDCTL_ENDPOINTS", strings.Join(c.Endpoints(), ","))
	return c
}

// lock holds a name for the rest of the test.
func lock(t *testing.T, c *leaseholdtest.Cluster, name string) *sdk.Grant {
	t.Helper()
	s, err := sdk.NewSession(t.Context(), c.DirectClient(t), sdk.Config{TTL: 30 * time.Second, Holder: "the test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	g, err := s.Lock(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// process is a leasehold process under test.
type process struct {
	*exec.Cmd
	out, err bytes.Buffer
	done     chan struct{}
}

// command makes a process of the command line that has not started yet.
func command(t *testing.T, args ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &process{Cmd: exec.CommandContext(ctx, os.Args[0], args...)}
	// The race detector sleeps for a second before a process exits, unless told not to.
	p.Env = append(os.Environ(), mainVariable+"=1", "GORACE=atexit_sleep_ms=0")
	p.Stdout, p.Stderr = &p.out, &p.err
	return p
}

// start starts it, and ends it with the test if it still runs then.
func (p *process) start(t *testing.T) *process {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func() {
		_ = p.Cmd.Wait() // the state says it all
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill() // it may have ended
		<-p.done
	})
	return p
}

// ended is closed when the process has ended.
func (p *process) ended() <-chan struct{} { return p.done }

// code waits for the end and returns the exit code.
func (p *process) code() int {
	<-p.done
	return p.ProcessState.ExitCode()
}

// run runs a command line to its end.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := command(t, args...).start(t)
	code = p.code()
	return code, p.out.String(), p.err.String()
}
