// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervise

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/guard"
)

const guardianArg = "be-a-guardian"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == guardianArg {
		if err := guard.Guardian(); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // or each guardian would take a second to end
	os.Exit(m.Run())
}

// hold is one that the test ends, or lets run out.
type hold struct {
	mu     sync.Mutex
	expiry time.Time
	err    error
	done   chan struct{}
	asked  chan struct{} // holds one once Remaining was called
	end    *time.Timer   // at the expiry
}

func holdFor(d time.Duration) *hold {
	h := &hold{expiry: time.Now().Add(d), done: make(chan struct{}), asked: make(chan struct{}, 1)}
	h.end = time.AfterFunc(d, func() { h.lose(errRanOut) })
	return h
}

var errRanOut = errors.New("ran out")

func (h *hold) Done() <-chan struct{} { return h.done }

func (h *hold) Err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}

func (h *hold) Remaining() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() {
		select {
		case h.asked <- struct{}{}:
		default:
		}
	}()
	if h.err != nil {
		return 0
	}
	return max(time.Until(h.expiry), 0)
}

func (h *hold) lose(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.done)
	}
}

func (h *hold) renew(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.expiry = time.Now().Add(d)
		h.end.Reset(d)
	}
}

func options(t *testing.T, script string, args ...string) Options {
	t.Helper()
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	return Options{Command: guard.Command{
		Path: path, Args: append([]string{"sh", "-c", script, "sh"}, args...), Env: os.Environ(),
		Margin: 100 * time.Millisecond, Grace: 200 * time.Millisecond,
		Guardian: []string{os.Args[0], guardianArg},
	}}
}

func TestRun_CommandThatEndsByItself(t *testing.T) {
	out, err := Run(holdFor(time.Hour), options(t, "exit 4"))
	if err != nil || out.Reason != Ended || out.Code != 4 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_LossLeavesNoTimeForAGentleEnd(t *testing.T) {
	h, why := holdFor(time.Hour), errors.New("taken away")
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				h.lose(why)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	o := options(t, `trap "" TERM; echo > "$1"; while :; do sleep 1; done`, ready)
	o.Command.Grace = 10 * time.Minute
	out, err := Run(h, o)
	if err != nil || out.Reason != Lost || !errors.Is(out.Err, why) || out.Signal != int(syscall.SIGKILL) {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_NoRenewalMeansLost(t *testing.T) {
	h := holdFor(20 * time.Second)
	o := options(t, `trap 'exit 0' TERM; while :; do sleep 0.01; done`)
	o.Command.Grace = 5 * time.Second // time for a busy machine
	out, err := Run(h, o)
	if err != nil || out.Reason != Lost || !errors.Is(out.Err, errNotRenewed) {
		t.Errorf("%+v, %v: success although the command was stopped", out, err)
	}
	if h.Remaining() == 0 {
		t.Error("the command was gone only after the expiry")
	}
}

func TestRun_RenewalsKeepTheCommandAlive(t *testing.T) {
	h := holdFor(3 * time.Second)
	renewing := time.NewTicker(100 * time.Millisecond)
	defer renewing.Stop()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-renewing.C:
				h.renew(time.Minute)
			case <-stop:
				return
			}
		}
	}()
	out, err := Run(h, options(t, "sleep 4; exit 6"))
	if err != nil || out.Reason != Ended || out.Code != 6 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_WaitsForARenewalBeforeItBegins(t *testing.T) {
	h := holdFor(time.Minute)
	o := options(t, "exit 2")
	o.Command.Grace = time.Minute // more than is left
	go func() {
		<-h.asked
		h.renew(time.Hour)
	}()
	out, err := Run(h, o)
	if err != nil || out.Reason != Ended || out.Code != 2 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_MaxHoldStopsGently(t *testing.T) {
	o := options(t, `trap 'exit 9' TERM; while :; do sleep 0.01; done`)
	o.MaxHold = 300 * time.Millisecond
	o.Command.Grace = 20 * time.Second // time for a busy machine
	out, err := Run(holdFor(time.Hour), o)
	if err != nil || out.Reason != MaxHold || out.Code != 9 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_PassesSignalsOn(t *testing.T) {
	signals := make(chan os.Signal, 1)
	ready := filepath.Join(t.TempDir(), "ready")
	go func() {
		for {
			if _, err := os.Stat(ready); err == nil {
				signals <- syscall.SIGUSR2
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	o := options(t, `trap 'exit 8' USR2; echo > "$1"; while :; do sleep 0.01; done`, ready)
	o.Signals = signals
	out, err := Run(holdFor(time.Hour), o)
	if err != nil || out.Reason != Ended || out.Code != 8 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestRun_CommandThatCannotStart(t *testing.T) {
	o := options(t, "")
	o.Command.Path = "/does/not/exist"
	_, err := Run(holdFor(time.Hour), o)
	if _, ok := errors.AsType[*guard.StartError](err); !ok {
		t.Errorf("got %v", err)
	}
}
