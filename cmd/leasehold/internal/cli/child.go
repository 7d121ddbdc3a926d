// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/guard"
	"example.com/leasehold/cmd/leasehold/internal/offspring"
	"example.com/leasehold/cmd/leasehold/internal/supervise"
	"github.com/spf13/cobra"
)

// childFlags are how run and lead treat their command.
type childFlags struct {
	grace     time.Duration
	maxHold   time.Duration
	tokenFile string
	shell     bool
}

func (a *app) childFlags(cmd *cobra.Command) *childFlags {
	c := new(childFlags)
	cmd.Flags().DurationVar(&c.grace, "grace", 0, "time between SIGTERM and SIGKILL when the command must end (default a sixth of the TTL, at most 10s)")
	cmd.Flags().DurationVar(&c.maxHold, "max-hold", 0, "end the command after this time")
	cmd.Flags().StringVar(&c.tokenFile, "token-file", "", "file that holds the token while the command runs")
	cmd.Flags().BoolVar(&c.shell, "shell", false, "the command is one argument, for the shell")
	return c
}

// guardianArg is the hidden subcommand under which package guard starts this program again.
const guardianArg = "guardian"

func (a *app) guardianCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardianArg,
		Hidden: true,
		Args:   args(noArgs),
		RunE:   func(*cobra.Command, []string) error { return guard.Guardian() },
	}
}

// resolve finds the program, and looks at what else may be wrong with the flags, before anything is locked: a typing error should not cost a wait.
func (c *childFlags) resolve(argv []string) (path string, full []string, err error) {
	if c.maxHold < 0 {
		return "", nil, exitWith(exitUsage, "--max-hold %s: want a time above zero", c.maxHold)
	}
	if c.shell {
		if len(argv) != 1 {
			return "", nil, exitWith(exitUsage, "--shell takes the command as one argument, not %d", len(argv))
		}
		if runtime.GOOS == "windows" {
			argv = []string{"cmd", "/C", argv[0]}
		} else {
			argv = []string{"/bin/sh", "-c", argv[0]}
		}
	}
	path, err = exec.LookPath(argv[0])
	if err != nil {
		return "", nil, cannotStart(argv[0], err)
	}
	return path, argv, c.checkTokenFile()
}

func cannotStart(name string, err error) error {
	code := exitNotExec
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
		code = exitNotFound
	}
	if inner, ok := errors.AsType[*exec.Error](err); ok {
		err = inner.Err
	}
	return exitWith(code, "cannot start %s: %w", name, err)
}

// timing divides the term: SIGKILL comes margin before the expiry, SIGTERM grace before that. Both together must leave
// renewals, which go out every third of the term, the time to be answered and repeated.
func (c *childFlags) timing(ttl time.Duration) (margin, grace time.Duration, err error) {
	margin = min(max(ttl/20, 200*time.Millisecond), time.Second)
	grace = c.grace
	if grace == 0 {
		grace = min(ttl/6, 10*time.Second)
	}
	if limit := ttl/2 - margin; grace < 0 || grace > limit {
		return 0, 0, exitWith(exitUsage, "--grace %s: want 0s to %s with a TTL of %s, so that there is time to renew", grace, limit, ttl)
	}
	return margin, grace, nil
}

// environment tells the command what it runs under. ETCD_LOCK_KEY and ETCD_LOCK_REV are those of etcdctl lock.
func environment(g *leasehold.Grant) []string {
	deadline := time.Now().Add(g.Remaining())
	return replaceEnv(os.Environ(),
		"LEASEHOLD_NAME="+g.Name(),
		"LEASEHOLD_KEY="+g.Key(),
		"LEASEHOLD_TOKEN="+g.Token().String(),
		fmt.Sprintf("LEASEHOLD_DEADLINE=%d.%03d", deadline.Unix(), deadline.Nanosecond()/int(time.Millisecond)),
		"ETCD_LOCK_KEY="+g.Key(),
		"ETCD_LOCK_REV="+g.Token().String(),
	)
}

// replaceEnv sets variables, without leaving older values of them behind for programs that take the first one.
func replaceEnv(env []string, set ...string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(env, set...)
}

// supervise runs the command under the grant and tells what becomes of it.
func (h *holdFlags) supervise(c *childFlags, g *leasehold.Grant, path string, argv []string, signals <-chan os.Signal) (supervise.Outcome, error) {
	margin, grace, err := c.timing(g.Session().TTL())
	if err != nil {
		return supervise.Outcome{}, err
	}
	self, err := offspring.Self()
	if err != nil {
		return supervise.Outcome{}, err
	}
	remove, err := c.writeToken(g.Token())
	if err != nil {
		return supervise.Outcome{}, err
	}
	defer remove()
	out, err := supervise.Run(g, supervise.Options{
		Command: guard.Command{
			Path: path, Args: argv, Env: environment(g), Margin: margin, Grace: grace,
			Guardian: []string{self, guardianArg},
		},
		MaxHold: c.maxHold,
		Signals: signals,
		Tell:    func(n supervise.Notice) { h.tell(n, g) },
	})
	if start, ok := errors.AsType[*guard.StartError](err); ok {
		return out, cannotStart(argv[0], start.Err)
	}
	return out, err
}

func (h *holdFlags) tell(n supervise.Notice, g *leasehold.Grant) {
	switch {
	case n.Over:
		h.note("--max-hold is over: stopping the command")
	case n.Err != nil:
		h.app.say("lost %q with token %v: %v", g.Name(), g.Token(), n.Err)
	case n.Event == guard.Expiring:
		h.app.say("etcd has not renewed %q for too long: stopping the command before the lease can end", g.Name())
	case n.Event == guard.Leftovers:
		h.note("the command has ended and has left processes behind: stopping them")
	case n.Event == guard.Killing:
		h.note("killing what is left of the command")
	case n.Event == guard.Resumed:
		h.note("a command cannot be suspended while it holds %q", g.Name())
	}
}

// result turns the outcome into the exit code.
func result(out supervise.Outcome, argv []string) error {
	switch {
	case out.Reason == supervise.Lost:
		return exitWith(exitLost, "the command was not protected to its end: %w", out.Err)
	case out.Reason == supervise.MaxHold:
		return &exitError{code: exitMaxHold}
	case out.Unknown:
		return exitWith(exitSignal+9, "the guardian of %s was killed, and the command with it", argv[0])
	case out.Signal != 0:
		return &exitError{code: exitSignal + out.Signal}
	case out.Code != 0:
		return &exitError{code: out.Code}
	}
	return nil
}

// checkTokenFile tries the directory out as writeToken will use it.
func (c *childFlags) checkTokenFile() error {
	if c.tokenFile == "" {
		return nil
	}
	if info, err := os.Stat(c.tokenFile); err == nil && info.IsDir() {
		return exitWith(exitUsage, "--token-file: %s: is a directory", c.tokenFile)
	}
	f, err := os.CreateTemp(filepath.Dir(c.tokenFile), ".leasehold-token-*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return exitWith(exitUsage, "--token-file: %w", err)
	}
	return nil
}

// writeToken puts the token into the token file, whole or not at all. The returned function removes it.
func (c *childFlags) writeToken(t leasehold.Token) (remove func(), err error) {
	if c.tokenFile == "" {
		return func() {}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(c.tokenFile), ".leasehold-token-*")
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", err)
	}
	_, err = fmt.Fprintln(f, t)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.tokenFile)
	}
	if err != nil {
		return nil, fmt.Errorf("--token-file: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return func() {
		// A successor on this machine may have written its own already.
		if text, err := os.ReadFile(c.tokenFile); err == nil && strings.TrimSpace(string(text)) == t.String() {
			_ = os.Remove(c.tokenFile) // stale tokens are refused by whoever checks them
		}
	}, nil
}
