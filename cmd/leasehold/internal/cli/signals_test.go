// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestInterrupts_ARequestToEndThatComesTwiceIsOne(t *testing.T) {
	const moment, later = 5 * time.Millisecond, 400 * time.Millisecond
	hup := syscall.SIGHUP
	if len(endSignals) < 3 {
		hup = syscall.SIGTERM // no such signal here
	}
	for _, tt := range []struct {
		name   string
		relay  bool
		first  os.Signal
		second os.Signal
		after  time.Duration
		passed int // to the command
	}{
		{"its copy is not passed on", true, os.Interrupt, os.Interrupt, moment, 1},
		{"nor that of a SIGTERM", true, syscall.SIGTERM, syscall.SIGTERM, moment, 1},
		{"another signal is", true, os.Interrupt, syscall.SIGTERM, moment, 2},
		{"and a second one, on purpose", true, os.Interrupt, os.Interrupt, later, 2},
		{"without a command it ends the context", false, os.Interrupt, os.Interrupt, moment, 0},
		{"what systemd sends is one request", false, syscall.SIGTERM, hup, moment, 0},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		i := &interrupts{cancel: cancel, acted: make(map[os.Signal]time.Time)}
		if tt.relay {
			i.relay = make(chan os.Signal, 16)
		}
		now := time.Now()
		if first := i.take(tt.first, now); first == tt.relay {
			t.Errorf("%s: ends the context: %v", tt.name, first)
		}
		if i.take(tt.second, now.Add(tt.after)) {
			t.Errorf("%s: the second ends the context", tt.name)
		}
		if n := len(i.relay); n != tt.passed {
			t.Errorf("%s: %d were passed on, want %d", tt.name, n, tt.passed)
		}
		if (ctx.Err() == nil) != tt.relay {
			t.Errorf("%s: context: %v", tt.name, ctx.Err())
		}
		cancel(nil)
	}
}

// TestInterrupts_TheEchoOfACommandsSignalIsNoneOfOurs is about what comes right after the command has ended by the first one: its
// exit code is what counts then.
func TestInterrupts_TheEchoOfACommandsSignalIsNoneOfOurs(t *testing.T) {
	for _, sig := range endSignals {
		ctx, cancel := context.WithCancelCause(t.Context())
		i := &interrupts{cancel: cancel, acted: make(map[os.Signal]time.Time), relay: make(chan os.Signal, 16)}
		now := time.Now()
		i.take(sig, now)
		i.giveBack()
		if i.take(sig, now.Add(100*time.Millisecond)); ctx.Err() != nil {
			t.Errorf("%v: the copy has interrupted the clean-up", sig)
		}
		if i.take(sig, now.Add(time.Second)); ctx.Err() == nil {
			t.Errorf("%v: a later one has not interrupted it", sig)
		}
		cancel(nil)
	}
}

func TestInterrupts_NoCommandBeginsAfterOne(t *testing.T) {
	_, cancel := context.WithCancelCause(t.Context())
	i := &interrupts{cancel: cancel, acted: make(map[os.Signal]time.Time)}
	i.take(syscall.SIGTERM, time.Now())
	if _, err := i.takeOver(); err == nil {
		t.Error("a command could begin that would never be told")
	}
}

func TestRelay_ASignalBesideTheCommandsEndCounts(t *testing.T) {
	for range 100 {
		from, done := make(chan os.Signal, 1), make(chan struct{})
		from <- syscall.SIGTERM
		close(done)
		if !relay(from, make(chan os.Signal, 1), done) {
			t.Fatal("it was forgotten: lead would go on")
		}
	}
}
