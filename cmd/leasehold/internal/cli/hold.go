// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// holdFlags are what run and lead have in common: how to get and keep a hold.
type holdFlags struct {
	*link
	ttl    time.Duration
	holder string
	quiet  bool

	// own is the lease of the session that was opened last: whoever tells others about the line leaves it out.
	own atomic.Int64
}

func (a *app) holdFlags(cmd *cobra.Command) *holdFlags {
	h := &holdFlags{link: a.etcdFlags(cmd)}
	cmd.Flags().DurationVar(&h.ttl, "ttl", 15*time.Second, "term of the lease, 1s to 5m: the shorter, the sooner others can take over from the dead, and the shorter the outage that the command survives")
	cmd.Flags().BoolVarP(&h.quiet, "quiet", "q", false, "say nothing but errors")
	return h
}

// checkTTL comes before whatever is derived from the TTL: the bounds of a flag that was not given would explain nothing.
func (h *holdFlags) checkTTL() error {
	if h.ttl < time.Second || h.ttl > 5*time.Minute {
		return exitWith(exitUsage, "--ttl %s: want 1s to 5m", h.ttl)
	}
	return nil
}

// note says what is going on, unless that is not wanted.
func (h *holdFlags) note(format string, args ...any) {
	if !h.quiet {
		h.app.say(format, args...)
	}
}

// session opens one. The first contact must not take long: a wrong endpoint should not look like a long wait.
func (h *holdFlags) session(ctx context.Context) (*leasehold.Session, error) {
	ctx, cancel := h.brief(ctx)
	defer cancel()
	s, err := leasehold.NewSession(ctx, h.client, leasehold.Config{TTL: h.ttl, Prefix: h.prefix, Holder: h.holder})
	if err != nil {
		return nil, h.classify(context.WithoutCancel(ctx), err)
	}
	h.own.Store(int64(s.Lease()))
	return s, nil
}

// Waits that are over soon are not worth a line. Later ones come further and further apart.
const (
	firstProgress = 3 * time.Second
	maxProgress   = time.Minute
)

// progress tells, from time to time until the returned function is called, whom a wait is for.
func (h *holdFlags) progress(ctx context.Context, name string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var told sync.WaitGroup
	started, pause := time.Now(), firstProgress
	if !h.quiet {
		told.Go(func() {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			for {
				select {
				case <-timer.C:
					h.app.say("waiting for %q for %s: %s", name, seconds(time.Since(started)), h.whoHolds(ctx, name))
					pause = min(2*pause, maxProgress)
					timer.Reset(pause)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return func() {
		cancel()
		told.Wait()
		if waited := time.Since(started); waited > firstProgress && !h.quiet {
			h.app.say("waited for %q for %s", name, seconds(waited))
		}
	}
}

// whoHolds describes the line of a name.
func (h *holdFlags) whoHolds(ctx context.Context, name string) string {
	ctx, cancel := h.brief(ctx)
	defer cancel()
	line, _, err := lines.ReadOne(ctx, h.client, h.prefix, name)
	if err != nil {
		return "etcd does not say who holds it"
	}
	return describe(line, clientv3.LeaseID(h.own.Load()))
}

// describe tells who else stands in a line than whoever has the lease own.
func describe(line lines.Line, own clientv3.LeaseID) string {
	others := slices.DeleteFunc(line.Places, func(p lines.Place) bool { return own != 0 && p.Lease == own })
	if len(others) == 0 {
		return "nobody holds it"
	}
	first := others[0]
	text := fmt.Sprintf("held by %s (token %v)", first.Holder, first.Token)
	if first.Problem != "" {
		text += ", " + first.Problem
	}
	switch n := len(others) - 1; n {
	case 0:
	case 1:
		text += ", 1 other waits"
	default:
		text += fmt.Sprintf(", %d others wait", n)
	}
	return text
}

// closing bounds the clean-up at the end. What it does not reach ends with the lease.
const closing = 5 * time.Second

// closeSession gives everything back. It says so if that failed: the name stays taken until the lease has run out.
func (h *holdFlags) closeSession(ctx context.Context, s *leasehold.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, leasehold.ErrClosed) {
		h.app.say("etcd did not take everything back: the name is free when the lease runs out, within about %s (%v)", s.TTL(), err)
	}
}
