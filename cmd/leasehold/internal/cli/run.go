// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"github.com/spf13/cobra"
)

func (a *app) runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARG...]",
		Short: "Run a command under a lock, and end it before anybody else can get the lock",
		Long: `Run waits for the lock NAME, runs the command while it holds it, and returns the command's exit code.

The command and everything that it has started, in whatever process group or session (Linux), is gone before the lock
can be somebody else's: when etcd has not renewed the lease for too long, it gets SIGTERM, and SIGKILL after its
grace; when the lock is taken away, when leasehold is killed or when it is stopped, it ends as well. What it leaves
behind when it ends by itself is ended before the lock is released.

Signals that leasehold gets are passed on to the command's process group. In a terminal the command gets the terminal;
it cannot be suspended.

The command finds in its environment:

  LEASEHOLD_NAME      the name
  LEASEHOLD_KEY       the key in etcd                                (also ETCD_LOCK_KEY, as from etcdctl lock)
  LEASEHOLD_TOKEN     the fencing token, to be sent with each write  (also ETCD_LOCK_REV)
  LEASEHOLD_DEADLINE  until when the lock is held without any renewal, in seconds since 1970; renewals move it on

A lock makes it improbable that two commands run at once, because a process can be delayed between any two steps. Only
a resource that compares tokens makes a late write impossible.

Names are shared with leasehold's SDK and, below --prefix, with etcdctl lock: with --prefix jobs/ the lock nightly
excludes "etcdctl lock jobs/nightly".

` + exitHelp(commandsOwn, "", endedWhileIdle, exitUsage, exitDenied, exitUnreachable, exitBusy, exitTimeout, exitLost, exitMaxHold, exitFailed, exitNotExec, exitNotFound),
		Example: `  leasehold run nightly --endpoints etcd:2379 -- /usr/local/bin/nightly-job
  leasehold run nightly --try -- backup.sh          # give up at once if somebody else runs it
  leasehold run migrate --wait 30s --shell -- 'migrate up && touch /tmp/done'
  leasehold run anything --embedded -- env          # no etcd at hand`,
		Args: args(nameAndCommand),
	}
	h, c := a.holdFlags(cmd), a.childFlags(cmd)
	var wait time.Duration
	var try bool
	cmd.Flags().DurationVar(&wait, "wait", 0, "give up if the lock is not free within this time (default: wait as long as it takes)")
	cmd.Flags().BoolVar(&try, "try", false, "give up at once if somebody holds the lock or waits for it")
	cmd.Flags().StringVar(&h.holder, "holder", "", "what others are told about who holds it (default host:pid)")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if wait < 0 || wait == 0 && cmd.Flags().Changed("wait") {
			return exitWith(exitUsage, "--wait %s: want a time above zero; --try does not wait", wait)
		}
		if len(h.holder) > maxHolder {
			return exitWith(exitUsage, "--holder of %d bytes: want %d at most", len(h.holder), maxHolder)
		}
		if wait > 0 && try {
			return exitWith(exitUsage, "--wait and --try exclude each other")
		}
		name, argv := given[0], given[1:]
		path, argv, err := c.resolve(argv)
		if err != nil {
			return err
		}
		if err := h.checkTTL(); err != nil {
			return err
		}
		if _, _, err := c.timing(h.ttl); err != nil {
			return err
		}
		return h.with(cmd, func(ctx context.Context) error {
			session, grant, err := h.acquire(ctx, name, wait, try)
			if err != nil {
				return err
			}
			defer h.closeSession(ctx, session)
			signals, err := a.interrupts.takeOver()
			if err != nil {
				return err
			}
			out, err := h.supervise(c, grant, path, argv, signals)
			if err != nil {
				return err
			}
			return result(out, argv)
		})
	}
	return cmd
}

// acquire waits for the lock. A wait that loses its session, in an outage of etcd that is longer than the term, gets in line
// again: nothing was held that could be lost.
func (h *holdFlags) acquire(ctx context.Context, name string, wait time.Duration, try bool) (*leasehold.Session, *leasehold.Grant, error) {
	if h.holder == "" {
		h.holder = defaultHolder()
	}
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, wait, errWaitOver)
		defer cancel()
	}
	answered := false
	for first := true; ; first = false {
		session, err := h.session(ctx)
		if err == nil {
			answered = true
			if first {
				defer h.progress(ctx, name)()
			}
			var grant *leasehold.Grant
			as := leasehold.WithHolder(lines.Holder(h.holder, time.Now()))
			if try {
				short, cancel := h.brief(ctx)
				grant, err = session.TryLock(short, name, as)
				cancel()
			} else {
				grant, err = session.Lock(ctx, name, as)
			}
			if err == nil {
				return session, grant, nil
			}
			h.closeSession(ctx, session)
		}
		if locked, ok := errors.AsType[*leasehold.LockedError](err); ok {
			holder, _ := lines.ParseHolder(locked.Holder)
			return nil, nil, exitWith(exitBusy, "%q is not free: held by %s (token %v)", name, holder, locked.Token)
		}
		if errors.Is(context.Cause(ctx), errWaitOver) {
			return nil, nil, h.waitOver(context.WithoutCancel(ctx), name, wait, answered)
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if !again(err, first) {
			return nil, nil, err
		}
		h.note("lost the place in line for %q (%v): getting in line again", name, err)
	}
}

// waitOver is what a wait has come to that was over before the lock was free.
func (h *holdFlags) waitOver(ctx context.Context, name string, wait time.Duration, answered bool) error {
	if !answered {
		// Nobody is known to be there. A wait can be too short for a connection, so etcd gets the time for one.
		short, cancel := context.WithTimeout(ctx, h.flags.DialTimeout)
		defer cancel()
		if _, _, err := lines.ReadOne(short, h.client, h.prefix, name); err != nil {
			return h.classify(ctx, err)
		}
	}
	return exitWith(exitTimeout, "%q was not free within %s: %s", name, wait, h.whoHolds(ctx, name))
}

// maxHolder bounds what is for people to read. The SDK takes more.
const maxHolder = 1024

var errWaitOver = errors.New("the time to wait is over")

// again reports whether a wait that ended with err is worth another one.
func again(err error, first bool) bool {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code == exitUnreachable && !first // it could be reached before
	}
	return errors.Is(err, leasehold.ErrExpired) || errors.Is(err, leasehold.ErrRevoked)
}
