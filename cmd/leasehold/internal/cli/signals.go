// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// echo is for how long after a signal another one is part of the same request. GNU timeout signals its child and then the
// whole group, systemd can send SIGHUP right behind SIGTERM; a person who presses ^C twice on purpose is slower.
const echo = 300 * time.Millisecond

// interrupts turns signals into the end of a context, until a command takes them over.
//
// It has one goroutine, started by catchInterrupts and ended by stop.
type interrupts struct {
	signals chan os.Signal
	cancel  context.CancelCauseFunc
	done    chan struct{}
	ended   sync.WaitGroup

	mu    sync.Mutex
	relay chan os.Signal          // where they go once they are taken over; nil before
	first *interrupted            // what has ended the context; nil before
	acted map[os.Signal]time.Time // when each of endSignals was last acted upon
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal syscall.Signal }

func (i *interrupted) Error() string { return "interrupted by signal " + i.signal.String() }

// catchInterrupts makes the first interrupt end what is under way in an orderly manner. A second one that comes later than its
// echo ends the process at once, because nobody catches it any more; the kernel ends the children then.
func catchInterrupts(parent context.Context) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(parent)
	i := &interrupts{signals: make(chan os.Signal, 16), cancel: cancel, done: make(chan struct{}), acted: make(map[os.Signal]time.Time)}
	i.notify(endSignals...)
	i.ended.Go(i.run)
	return ctx, i
}

// notify catches signals, except those that were ignored when this process began: nohup means it.
func (i *interrupts) notify(signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(i.signals, s)
		}
	}
}

func (i *interrupts) run() {
	var over <-chan time.Time // when the echo of the first is
	for {
		select {
		case s := <-i.signals:
			if i.take(s, time.Now()) {
				over = time.NewTimer(echo).C
			}
		case <-over:
			signal.Stop(i.signals)
		case <-i.done:
			return
		}
	}
}

// take does what a signal asks for, and reports whether that was to end the context.
//
// The lock is held to the end: a signal that was seen while a command had taken them over must not come into its channel after
// giveBack, where nobody would find it.
func (i *interrupts) take(s os.Signal, now time.Time) (first bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first != nil || i.echoes(s, now) {
		return false
	}
	if i.relay != nil {
		select {
		case i.relay <- s:
		default: // nobody takes them any more, or so many that one more changes nothing
		}
		return false
	}
	sig, _ := s.(syscall.Signal)
	i.first = &interrupted{sig}
	i.cancel(i.first)
	return true
}

// echoes reports whether s only repeats what was acted upon a moment ago. What is passed on to a command is passed on each time
// if it may mean something else than the end: two SIGHUP may be two changes of a configuration.
func (i *interrupts) echoes(s os.Signal, now time.Time) bool {
	if !slices.Contains(endSignals, s) {
		return false
	}
	if was, ok := i.acted[s]; ok && now.Sub(was) < echo && (i.relay == nil || s == os.Interrupt || s == syscall.SIGTERM) {
		return true
	}
	i.acted[s] = now
	return false
}

// takeOver sends signals, from now on and more of them than before, to the returned channel. It fails with what has ended the
// context, if anything has: a command that began after that would never be told.
func (i *interrupts) takeOver() (<-chan os.Signal, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first != nil {
		return nil, i.first
	}
	if i.relay == nil {
		i.relay = make(chan os.Signal, 16)
		i.notify(relayedSignals...)
	}
	return i.relay, nil
}

// giveBack makes the next interrupt end the context again. Nothing is sent to the channel of takeOver any more when it returns.
func (i *interrupts) giveBack() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.relay = nil
}

// stop comes right before the end of the process. Signals stay caught: the echo of one that has been obeyed must not turn an exit
// code into a death.
func (i *interrupts) stop() {
	close(i.done)
	i.ended.Wait()
	i.cancel(nil)
}
