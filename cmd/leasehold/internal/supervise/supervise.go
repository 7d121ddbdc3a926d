// SPDX-License-Identifier: Apache-2.0

// Package supervise ties the life of a command to a hold on something: a lock or a leadership. The command is gone before
// the hold's local expiry, whatever happens to the network, to etcd or to this process (see package guard).
package supervise

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/guard"
	"example.com/leasehold/internal/machineclock"
)

// Hold is what the command may run under; a [leasehold.Grant] is one.
type Hold interface {
	Done() <-chan struct{}
	Err() error
	Remaining() time.Duration
}

// Options says how to run the command.
type Options struct {
	Command guard.Command // Notify is set here
	MaxHold time.Duration // 0: no bound
	Signals <-chan os.Signal
	Tell    func(Notice) // may be nil; called from one goroutine at a time
}

// Notice is something that the user may want to read.
type Notice struct {
	Event guard.Event // 0: the hold was lost, or its time is over
	Err   error       // why the hold was lost; leasehold's own reasons
	Over  bool        // its time is over (MaxHold)
}

// Reason says why the command has ended.
type Reason int

// The reasons.
const (
	Ended   Reason = iota + 1 // by itself, while the hold was held
	Lost                      // the hold was lost, or could not be renewed in time
	MaxHold                   // its time was over
)

// Outcome is how a command under a hold ended.
type Outcome struct {
	guard.Result
	Reason Reason
	Err    error // with Lost: why
}

// errNotRenewed is the reason of a loss that has not happened yet: the command was stopped because no renewal was
// answered for so long that it had to be.
var errNotRenewed = errors.New("the lease was not renewed in time")

// Run runs the command until it has ended, the hold is lost or its time is over, and returns when nobody of the command's
// processes is left. A command that cannot start is a [*guard.StartError].
func Run(hold Hold, o Options) (Outcome, error) {
	var expiring atomic.Bool
	tell := o.Tell
	if tell == nil {
		tell = func(Notice) {}
	}
	notices := make(chan Notice, 8)
	o.Command.Notify = func(e guard.Event) {
		if e == guard.Expiring {
			expiring.Store(true)
		}
		select {
		case notices <- Notice{Event: e}:
		default: // a notice more or less
		}
	}
	run, err := guard.Prepare(o.Command)
	if err != nil {
		return Outcome{}, err
	}
	deadline := fresh(hold, o)
	switch err := run.Start(deadline); {
	case errors.Is(err, guard.ErrTooLate):
		return Outcome{Reason: Lost, Err: errOr(hold.Err(), errNotRenewed)}, nil
	case err != nil:
		return Outcome{}, err
	}
	var out Outcome
	lost, over := hold.Done(), maxHold(o.MaxHold)
	// The guardian needs every move of the expiry soon, but between two renewals there is none.
	poll := time.NewTicker(min(max(time.Duration(deadline.Sub(machineclock.Now()))/50, 5*time.Millisecond), 250*time.Millisecond))
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
			if e := expiry(hold); e.Sub(deadline) > time.Millisecond {
				deadline = e
				run.Extend(deadline)
			}
		case s := <-o.Signals:
			if sig, ok := s.(syscall.Signal); ok {
				run.Signal(sig)
			}
		case <-lost:
			lost = nil
			out.Reason, out.Err = Lost, hold.Err()
			tell(Notice{Err: out.Err})
			// At its expiry the guardian has ended it before. For any other reason the name may be somebody else's
			// already: there is no time for a gentle end.
			run.Kill()
		case <-over:
			over = nil
			if out.Reason == 0 {
				out.Reason = MaxHold
				tell(Notice{Over: true})
				run.Stop()
			}
		case n := <-notices:
			tell(n)
		case <-run.Done():
			drain(notices, tell)
			out.Result = run.Result()
			switch {
			case hold.Err() != nil:
				// It may have ended by itself a moment before or after. That it was protected to its end is not known.
				out.Reason, out.Err = Lost, hold.Err()
			case expiring.Load():
				out.Reason, out.Err = Lost, errNotRenewed
			case out.Reason == 0:
				out.Reason = Ended
			}
			return out, nil
		}
	}
}

// fresh returns the hold's expiry, after a wait for a renewal if so little is left that a busy machine would hardly have
// begun with the command when it had to be stopped again.
func fresh(hold Hold, o Options) machineclock.Instant {
	enough := 2 * (o.Command.Margin + o.Command.Grace)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for hold.Err() == nil && hold.Remaining() < enough {
		<-poll.C
	}
	return expiry(hold)
}

func errOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func maxHold(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.NewTimer(d).C
}

func drain(notices <-chan Notice, tell func(Notice)) {
	for {
		select {
		case n := <-notices:
			tell(n)
		default:
			return
		}
	}
}

// expiry returns the hold's local expiry on the machine's clock, which the guardian reads too. The clock is read first, so
// the result is never later than the truth.
func expiry(hold Hold) machineclock.Instant {
	now := machineclock.Now()
	return now.Add(hold.Remaining())
}

var _ Hold = (*leasehold.Grant)(nil)
