// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/internal/machineclock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Worker is the hidden subcommand: one of the processes that contend for the lock. It obeys the orders that it reads
// from in and reports to out. It returns when in ends, which it does when the parent is gone, however that came.
func Worker(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &worker{pen: &pen{w: out}, orders: make(chan order, 4), answers: make(chan order, 4)}
	go func() {
		// Ends with the process at the latest: a read from a pipe cannot be called off.
		err := readLines(in, func(o order) {
			to := w.orders
			if o.Do == doAnswer {
				to = w.answers // an order can come between a write and its answer
			}
			select {
			case to <- o:
			case <-ctx.Done():
			}
		})
		cancel(errors.Join(errParentGone, err))
	}()

	err := w.work(ctx)
	if errors.Is(context.Cause(ctx), errParentGone) {
		return nil
	}
	if err != nil {
		_ = w.report(report{Event: evFailed, Reason: err.Error()}) // the parent may be gone
	}
	return err
}

var errParentGone = errors.New("demo: the parent has closed the pipe")

// worker runs in one goroutine; a second one, follow, watches the expiry of the present grant and shares only the pen.
type worker struct {
	briefing
	pen     *pen
	orders  chan order
	answers chan order
	client  *leasehold.Client
}

func (w *worker) report(r report) error {
	if r.At == 0 {
		r.At = machineclock.Now()
	}
	return w.pen.write(r)
}

func (w *worker) work(ctx context.Context) error {
	first, err := w.await(ctx, doBrief)
	if err != nil {
		return err
	}
	w.briefing = *first.Brief
	etcd, err := clientv3.New(clientv3.Config{Endpoints: w.Endpoints, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer etcd.Close()
	w.client, err = leasehold.New(etcd, leasehold.Config{TTL: w.TTL, Holder: w.Name})
	if err != nil {
		return err
	}
	// Open the session now, so that the first wait in line is only a wait in line.
	if _, err := w.client.Session(ctx); err != nil {
		return err
	}
	if err := w.report(report{Event: evReady}); err != nil {
		return err
	}
	for {
		if _, err := w.await(ctx, doLock); err != nil {
			return err
		}
		if err := w.takeTurns(ctx); err != nil {
			return err
		}
	}
}

// await returns the next order, which must be do.
func (w *worker) await(ctx context.Context, do string) (order, error) {
	select {
	case o := <-w.orders:
		if o.Do != do || do == doBrief && o.Brief == nil {
			return o, fmt.Errorf("demo: worker was told %q while it waited for %q", o.Do, do)
		}
		return o, nil
	case <-ctx.Done():
		return order{}, context.Cause(ctx)
	}
}

// takeTurns gets in line and holds, again and again after every loss, until it was told to release.
func (w *worker) takeTurns(ctx context.Context) error {
	for {
		if err := w.report(report{Event: evWaits}); err != nil {
			return err
		}
		grant, err := w.client.Lock(ctx, w.Lock)
		if errors.Is(err, leasehold.ErrExpired) || errors.Is(err, leasehold.ErrRevoked) {
			continue // the place is lost, on a machine that is too busy to renew; nothing was held
		}
		if err != nil {
			return err
		}
		lost, err := w.hold(ctx, grant)
		if err != nil || !lost {
			return err
		}
	}
}

// hold writes at every beat until the grant is lost or the parent says release. It checks before each write, as a
// careful program does, and after a check that said no it writes once all the same, as a careless one would.
func (w *worker) hold(ctx context.Context, grant *leasehold.Grant) (lost bool, err error) {
	if err := w.report(report{Event: evAcquired, Token: grant.Token(), Expiry: expiry(grant)}); err != nil {
		return false, err
	}
	followed := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-followed }()
	go func() {
		defer close(followed)
		w.follow(ctx, grant)
	}()

	beat := time.NewTicker(w.Beat)
	defer beat.Stop()
	for n := 1; ; n++ {
		valid := grant.Valid()
		check := report{Event: evChecked, Token: grant.Token(), Valid: valid, Expiry: expiry(grant)}
		if !valid {
			check.Reason = grant.Err().Error()
			check.Expired = errors.Is(grant.Err(), leasehold.ErrExpired)
		}
		if err := w.report(check); err != nil {
			return false, err
		}
		if err := w.write(ctx, grant.Token(), fmt.Sprintf("%s #%d", w.Name, n), !valid); err != nil || !valid {
			return !valid, err
		}
		select {
		case <-beat.C:
		case o := <-w.orders:
			if o.Do != doRelease {
				return false, fmt.Errorf("demo: worker was told %q while it held", o.Do)
			}
			return false, w.release(ctx, grant)
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// write sends a value to the register and waits for the answer.
func (w *worker) write(ctx context.Context, token leasehold.Token, value string, unasked bool) error {
	if err := w.report(report{Event: evWrite, Token: token, Value: value, Unasked: unasked}); err != nil {
		return err
	}
	select {
	case <-w.answers:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *worker) release(ctx context.Context, grant *leasehold.Grant) error {
	// Its owner stops believing when it calls Release, and the grant itself before the name is freed (R6).
	at := machineclock.Now()
	if err := grant.Release(ctx); err != nil {
		return err
	}
	return w.report(report{Event: evReleased, At: at, Token: grant.Token()})
}

// follow reports every move of the grant's expiry, so that the parent knows how long a process that it stops will
// have believed.
func (w *worker) follow(ctx context.Context, grant *leasehold.Grant) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	last := expiry(grant)
	for {
		select {
		case <-poll.C:
		case <-grant.Done():
			return
		case <-ctx.Done():
			return
		}
		// Two readings of an expiry that stands still differ by the time between the two clock readings.
		if e := expiry(grant); e.Sub(last) > 50*time.Millisecond {
			last = e
			_ = w.report(report{Event: evRenewed, Token: grant.Token(), Expiry: e}) // the main loop sees a closed pipe too
		}
	}
}

// expiry returns the instant at which the grant will have run out, on the clock that all processes here share. The
// clock is read after the remaining time, so the result is never earlier than the truth.
func expiry(grant *leasehold.Grant) machineclock.Instant {
	remaining := grant.Remaining()
	if remaining <= 0 {
		return 0
	}
	return machineclock.Now().Add(remaining)
}
