// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/supervise"
	"github.com/spf13/cobra"
)

func (a *app) leadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lead NAME VALUE [flags] -- COMMAND [ARG...]",
		Short: "Run a command while this process leads an election, again and again",
		Long: `Lead campaigns in the election NAME, proclaims VALUE when it leads (an address, say, at which followers find the
leader), and runs the command as long as it leads. When the command ends or the leadership is lost, it campaigns
again, as a supervisor does; a command that ends soon is started again after a pause that grows to half a minute.

It ends when it gets SIGINT, SIGTERM or SIGHUP, which it passes on, with the command's exit code; and with --once
when the command has ended for the first time.

The command is ended before anybody else can lead, as under "leasehold run", and finds the same environment. Everybody
can ask "leasehold leader NAME".

` + exitHelp(commandsOwn, "", endedWhileIdle, exitUsage, exitDenied, exitUnreachable, exitLost, exitMaxHold, exitFailed, exitNotExec, exitNotFound),
		Example: `  leasehold lead scheduler 10.0.0.7:8080 --ttl 10s -- /usr/local/bin/scheduler
  leasehold lead migrate "$(hostname)" --once -- ./migrate up`,
		Args: args(nameValueAndCommand),
	}
	h, c := a.holdFlags(cmd), a.childFlags(cmd)
	var once bool
	cmd.Flags().BoolVar(&once, "once", false, "end with the command's exit code when it has ended for the first time")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		path, argv, err := c.resolve(given[2:])
		if err != nil {
			return err
		}
		if err := h.checkTTL(); err != nil {
			return err
		}
		if _, _, err := c.timing(h.ttl); err != nil {
			return err
		}
		s := &supervisor{holdFlags: h, child: c, name: given[0], value: given[1], path: path, argv: argv, once: once}
		return h.with(cmd, s.run)
	}
	return cmd
}

// supervisor campaigns and runs the command, again and again.
type supervisor struct {
	*holdFlags
	child       *childFlags
	name, value string
	path        string
	argv        []string
	once        bool
}

// A command that has run for long is started again at once, one that ends soon after a pause that doubles.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

func (s *supervisor) run(ctx context.Context) error {
	pause := firstPause
	for first := true; ; first = false {
		began := time.Now()
		over, err := s.lead(ctx, first)
		if over || s.once && !errors.Is(err, errNoLeadership) {
			return err
		}
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		if err != nil {
			s.note("%v; again in %s", err, pause)
		} else {
			s.note("the command has ended; again in %s", pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		pause = min(2*pause, lastPause)
	}
}

// errNoLeadership says that a campaign has failed, before any command ran.
var errNoLeadership = errors.New("no leadership")

// lead campaigns once and runs the command once. over says that there must be no other time.
func (s *supervisor) lead(ctx context.Context, first bool) (over bool, err error) {
	session, err := s.session(ctx)
	if err != nil {
		if !again(err, first) {
			return true, err
		}
		return false, fmt.Errorf("%w: %w", errNoLeadership, err)
	}
	defer s.closeSession(ctx, session)
	stop := s.progress(ctx, s.name)
	leadership, err := session.Election(s.name).Campaign(ctx, s.value)
	stop()
	if err != nil {
		if ctx.Err() != nil {
			return true, context.Cause(ctx)
		}
		if !again(err, first) {
			return true, err
		}
		return false, fmt.Errorf("%w: %w", errNoLeadership, err)
	}
	s.note("leading %q with token %v", s.name, leadership.Token())
	out, ending, err := s.watchSignals(leadership.Grant)
	if err != nil {
		return true, err
	}
	return ending, result(out, s.argv)
}

// watchSignals runs the command and reports whether it was told, through this process, to end.
func (s *supervisor) watchSignals(g *leasehold.Grant) (out supervise.Outcome, ending bool, err error) {
	taken, err := s.app.interrupts.takeOver()
	if err != nil {
		return supervise.Outcome{}, true, err
	}
	signals, done := make(chan os.Signal, 16), make(chan struct{})
	told := make(chan bool, 1)
	go func() { told <- relay(taken, signals, done) }()
	out, err = s.supervise(s.child, g, s.path, s.argv, signals)
	s.app.interrupts.giveBack() // first, so that relay finds all that there is
	close(done)
	return out, <-told, err
}

// relay passes signals on until done is closed, and reports whether one of them says to end. One that came together with the
// end of the command counts, too: who signals a whole group ends the command with the same stroke.
func relay(from <-chan os.Signal, to chan<- os.Signal, done <-chan struct{}) (ending bool) {
	pass := func(sig os.Signal) {
		ending = ending || slices.Contains(endSignals, sig)
		select {
		case to <- sig:
		default: // one more changes nothing
		}
	}
	for {
		select {
		case sig := <-from:
			pass(sig)
		case <-done:
			for {
				select {
				case sig := <-from:
					pass(sig)
				default:
					return ending
				}
			}
		}
	}
}
