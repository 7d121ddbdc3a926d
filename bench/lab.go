// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"example.com/leasehold/bench/internal/etcd"
	"example.com/leasehold/bench/internal/proc"
	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/bench/internal/sample"
)

// options are the command's flags.
type options struct {
	members int
	fsync   bool
	rtt     time.Duration
	only    []string
	rounds  int
	length  time.Duration
	out     string
	dir     string
	full    bool
	instant bool // for tests: every axis at a hundredth of its size
}

func (o options) validate() error {
	var errs []error
	if o.members != 1 && o.members != 3 {
		errs = append(errs, fmt.Errorf("-members %d: want 1 or 3", o.members))
	}
	if o.rtt < 0 {
		errs = append(errs, fmt.Errorf("-rtt %v: want at least 0", o.rtt))
	}
	if o.rounds < 1 {
		errs = append(errs, fmt.Errorf("-rounds %d: want at least 1", o.rounds))
	}
	if o.length < time.Millisecond {
		errs = append(errs, fmt.Errorf("-for %v: want at least 1ms", o.length))
	}
	for _, name := range o.only {
		if !slices.ContainsFunc(axes, func(a axis) bool { return a.name == name }) {
			errs = append(errs, fmt.Errorf("-only: no axis is named %q; see -help", name))
		}
	}
	return errors.Join(errs...)
}

// An axis is one question that the benchmark answers.
type axis struct {
	name  string
	title string
	run   func(context.Context, *lab) error
}

// lab is what an axis works with.
type lab struct {
	options
	axis   axis
	report *report.Report
	log    io.Writer
}

// run runs the axes and writes the results, also of those before the one that failed.
func (o options) run(ctx context.Context, log io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	r := &report.Report{}
	if err := o.facts(r); err != nil {
		return err
	}
	begin := time.Now()
	var failed error
	for _, a := range axes {
		if len(o.only) > 0 && !slices.Contains(o.only, a.name) {
			continue
		}
		started := time.Now()
		fmt.Fprintf(log, "\n## %s\n", a.title)
		if err := a.run(ctx, &lab{options: o, axis: a, report: r, log: log}); err != nil {
			failed = fmt.Errorf("axis %s: %w", a.name, err)
			break
		}
		fmt.Fprintf(log, "(%s took %v)\n", a.name, time.Since(started).Round(100*time.Millisecond))
	}
	r.Fact("duration", time.Since(begin).Round(time.Second).String())
	missed := r.Missed()
	fmt.Fprintf(log, "\n%d bars are missed; see %s\n", len(missed), o.out)
	for _, row := range missed {
		fmt.Fprintf(log, "%s: %s", row.Axis, row.Markdown())
	}
	return errors.Join(failed, o.write("results.md", r.Markdown), o.write("results.json", r.JSON))
}

// write writes a file of the results.
func (o options) write(name string, write func(io.Writer) error) (err error) {
	f, err := os.Create(filepath.Join(o.out, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return write(f)
}

// cluster starts a cluster as the flags describe it, but for what change changes.
func (l *lab) cluster(ctx context.Context, change ...func(*etcd.Options)) (*etcd.Cluster, error) {
	o := etcd.Options{Members: l.members, Fsync: l.fsync, RTT: l.rtt, Dir: l.dir}
	for _, c := range change {
		c(&o)
	}
	return etcd.Start(ctx, o)
}

// dial returns an etcd client with default settings that has reached the cluster.
func dial(ctx context.Context, endpoints []string, opts ...grpc.DialOption) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: endpoints, DialOptions: opts, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	if _, err := client.Get(ctx, "nothing", clientv3.WithCountOnly()); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

// reading is what one subject was measured at in one round: figures by metric.
type reading map[string]float64

// taken is what the subjects were measured at, round by round.
type taken map[subject][]reading

// turns lets the subjects take turns in every round, each round beginning with another one.
func (l *lab) turns(ctx context.Context, rounds int, subjects []subject, measure func(ctx context.Context, s subject, round int) (reading, error)) (taken, error) {
	t := taken{}
	for round := range rounds {
		for i := range subjects {
			s := subjects[(i+round)%len(subjects)]
			r, err := measure(ctx, s, round)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", s, round+1, err)
			}
			t[s] = append(t[s], r)
		}
	}
	return t, nil
}

// median is the median over the rounds; NaN if nothing was measured.
func (t taken) median(s subject, metric string) float64 { return sample.Median(t.all(s, metric)) }

func (t taken) all(s subject, metric string) []float64 {
	var all []float64
	for _, r := range t[s] {
		if v, ok := r[metric]; ok {
			all = append(all, v)
		}
	}
	return all
}

// metric says how a row shows what readings hold under a key.
type metric struct {
	key, label string
	unit       report.Unit
	bar        report.Bar
}

// rows adds a row for each metric and prints it.
func (l *lab) rows(name string, t taken, metrics ...metric) {
	for _, m := range metrics {
		rounds := map[string][]float64{}
		for s := range maps.Keys(t) {
			if all := t.all(s, m.key); len(all) > 0 {
				rounds[string(s)] = all
			}
		}
		row := l.report.Add(report.Row{
			Axis: l.axis.title, Case: name, Metric: m.label, Unit: m.unit, Bar: m.bar, Rounds: rounds,
			Ours: report.Of(t.median(ours, m.key)), Theirs: report.Of(t.median(theirs, m.key)), Floor: report.Of(t.median(floor, m.key)),
		})
		fmt.Fprint(l.log, row.Markdown())
	}
}

// sized is n, or less of it for a test that only wants to see the axis at work.
func (l *lab) sized(n int) int {
	if l.instant {
		return max(min(n, 4), n/100)
	}
	return n
}

// brief is a term, or a short one for a test.
func (l *lab) brief(ttl time.Duration) time.Duration {
	if l.instant {
		return 5 * time.Second // shorter ones are lost on a busy machine
	}
	return ttl
}

// roles are what this program is executed again as.
func roles() map[string]proc.Role {
	r := maps.Clone(etcd.Roles)
	r[holderRole] = hold
	return r
}
