// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// interrupts turns signals into the end of a context, until a command takes them over.
//
// It has one goroutine, started by catchInterrupts and ended by stop.
type interrupts struct {
	signals chan os.Signal
	cancel  context.CancelCauseFunc
	done    chan struct{}
	ended   sync.WaitGroup

	mu    sync.Mutex
	relay chan os.Signal // where they go once they are taken over; nil before
}

// interrupted is the cause of a context that a signal has ended.
type interrupted struct{ signal syscall.Signal }

func (i *interrupted) Error() string { return "interrupted by signal " + i.signal.String() }

// catchInterrupts makes the first interrupt end what is under way in an orderly manner. A second one ends the process at once,
// because nobody catches it any more; the kernel ends the children then.
func catchInterrupts(parent context.Context) (context.Context, *interrupts) {
	ctx, cancel := context.WithCancelCause(parent)
	i := &interrupts{signals: make(chan os.Signal, 16), cancel: cancel, done: make(chan struct{})}
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
	for {
		select {
		case s := <-i.signals:
			i.mu.Lock()
			relay := i.relay
			i.mu.Unlock()
			if relay == nil {
				signal.Stop(i.signals)
				sig, _ := s.(syscall.Signal)
				i.cancel(&interrupted{sig})
				continue
			}
			select {
			case relay <- s:
			default: // nobody takes them any more, or so many that one more changes nothing
			}
		case <-i.done:
			return
		}
	}
}

// takeOver sends signals, from now on and more of them than before, to the returned channel.
func (i *interrupts) takeOver() <-chan os.Signal {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.relay == nil {
		i.relay = make(chan os.Signal, 16)
		i.notify(relayedSignals...)
	}
	return i.relay
}

// giveBack makes the next interrupt end the context again.
func (i *interrupts) giveBack() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.relay = nil
}

func (i *interrupts) stop() {
	signal.Stop(i.signals)
	close(i.done)
	i.ended.Wait()
	i.cancel(nil)
}
