// SPDX-License-Identifier: Apache-2.0

// Package demo shows to a newcomer what the SDK promises: three etcd members and three processes on one machine, a
// holder that stops running, an etcd leader that stops, and a register that refuses a late write. Everything that
// must hold is checked, and all instants are read from the one clock that the processes of a machine share.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/terminal"
	"example.com/leasehold/cmd/leasehold/internal/timeline"
	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// Options describes a run.
type Options struct {
	Out    io.Writer
	Screen terminal.Screen
	SVG    string // where the picture goes; empty: leasehold-demo.svg here, or with the temporary files

	// Program and Args run this program's hidden worker subcommand.
	Program string
	Args    []string
}

// What the demo is made of. Four seconds are long enough for a change of leader on a busy machine and short enough to
// wait for.
const (
	ttl      = 4 * time.Second
	beat     = 200 * time.Millisecond
	patience = 10 * time.Second // for any one step; etcd frees a name within about TTL + 0.5 s
	limit    = 38 * time.Second // for all of it
	lockName = "demo"
)

var workerNames = []string{"alpha", "beta", "gamma"}

// ErrUnexpected says that something that must hold did not; what it was has been printed.
var ErrUnexpected = errors.New("demo: not everything held that must hold")

// Run plays the demo. It returns nil if everything held and the picture is written, ErrUnexpected if not everything held,
// ErrPicture before anything else if the picture's file cannot be opened, and otherwise what kept it from finding out or, after
// the verdict, from saving the picture. When ctx ends it returns the context's cause. Whatever happens, no process of its own and no file but
// the picture is left when it returns.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("demo: not done within %v", limit))
	defer cancel()
	file, err := openPicture(o.SVG)
	if err != nil {
		return err
	}
	defer file.discard()
	n := &narrator{out: o.Out, screen: o.Screen}
	fmt.Fprintf(o.Out, "%s\n", n.paint("1", "Three etcd members, three processes, one lock"))
	n.paragraph("", 0, fmt.Sprintf("All of it runs on this machine, with temporary files. The lock's TTL is %v.", ttl))
	n.paragraph("", 0, "A token is the revision of etcd's store at which its holder got in line. Each write raises the revision, that of whoever gets in line or lets go as well, so tokens leave numbers out: what counts is which one is larger.")
	n.paragraph("", 0, "The register stands for what the lock protects: a value in this process. It remembers the largest token that it has seen and refuses every write with a smaller one.")
	n.paragraph("", 0, "Starting etcd.")
	fmt.Fprintln(o.Out)

	etcd, err := startCluster(ctx)
	if err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	s, err := stage(ctx, n, etcd, o)
	if err != nil {
		return errors.Join(err, etcd.Close())
	}
	watching, stopWatching := context.WithCancel(ctx)
	var watch sync.WaitGroup
	leaders := make(chan leadership, 16)
	s.leaders = leaders
	watch.Go(func() { watchLeader(watching, etcd, leaders) })

	err = s.play(ctx)
	s.flush()
	end := machineclock.Now()
	stopWatching()
	watch.Wait()
	grace := 3 * time.Second
	if err != nil {
		grace = 0
	}
	dismissed := s.crew.dismiss(grace)
	closed := etcd.Close()
	if err != nil && !errors.Is(err, errUnmet) {
		return err // interrupted, or something broke: a picture of half a story would only mislead
	}
	if err == nil {
		s.lookBack()
		s.expect(dismissed == nil, "the worker processes left by themselves%s", because(dismissed))
	}
	if err := s.conclude(o, file, end); err != nil {
		return err
	}
	if closed != nil {
		return fmt.Errorf("stop etcd: %w", closed)
	}
	return nil
}

// stage starts the workers.
func stage(ctx context.Context, n *narrator, etcd *leaseholdtest.Cluster, o Options) (*story, error) {
	s := &story{narrator: n, ttl: ttl, beat: beat, patience: patience, cluster: etcd}
	s.start = machineclock.Now()
	s.record.workers = workerNames
	for _, m := range etcd.Members() {
		s.members = append(s.members, member{name: m.Name()})
	}
	var err error
	s.crew, err = muster(workerNames, o.Program, o.Args, briefing{Endpoints: etcd.Endpoints(), Lock: lockName, TTL: ttl, Beat: beat})
	if err != nil {
		return nil, err
	}
	for _, w := range s.crew.workers {
		s.pids = append(s.pids, w.child.Pid())
	}
	return s, context.Cause(ctx)
}

// conclude draws the picture and gives the verdict, whether the picture could be saved or not.
func (s *story) conclude(o Options, file *pictureFile, end machineclock.Instant) error {
	p := s.picture("Who believed what when",
		fmt.Sprintf("Three processes and one lock with a TTL of %v, measured on one clock of this machine. A bar is the time during which a process's own check would have said yes.", s.ttl),
		s.register.writes, end)
	fmt.Fprintf(o.Out, "\n%s\n", p.Text(timeline.Style{Width: o.Screen.Width, Colour: o.Screen.Colour, ASCII: o.Screen.ASCII}))
	saved := file.save(p.SVG())
	if saved == nil {
		fmt.Fprintf(o.Out, "The picture as a file: %s\n", file.path)
	}
	if len(s.failed) > 0 {
		fmt.Fprintf(o.Out, "\n%s\n", s.paint("1;31", fmt.Sprintf("%d of the things that must hold did not:", len(s.failed))))
		for _, f := range s.failed {
			fmt.Fprintf(o.Out, "  %s\n", f)
		}
		return ErrUnexpected
	}
	fmt.Fprintf(o.Out, "%s\n", s.paint("1;32", "Everything held that must hold."))
	return saved
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}
