// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/machineclock"
	"example.com/leasehold/leaseholdtest"
)

// options are the command's flags.
type options struct {
	subject string
	seed    uint64
	length  time.Duration // with faults
	calm    time.Duration // without, at the end
	rewinds int
	every   time.Duration
	ttl     time.Duration
	members int
	workers int
	nameN   int
	auth    bool
	out     string
}

func (o options) names() []string {
	names := make([]string, o.nameN)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return names
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := func() error {
		if text := os.Getenv(workerVariable); text != "" {
			return work(ctx, text)
		}
		var o options
		flag.StringVar(&o.subject, "subject", "leasehold", "what to torture: leasehold, or mutex (etcd's concurrency.Mutex)")
		flag.Uint64Var(&o.seed, "seed", 1, "of the faults")
		flag.DurationVar(&o.length, "for", time.Minute, "how long there are faults")
		flag.DurationVar(&o.calm, "calm", 30*time.Second, "how long there are none at the end")
		flag.IntVar(&o.rewinds, "rewinds", 3, "how often the data is rolled back, wiped or replaced, before all other faults")
		flag.DurationVar(&o.every, "every", time.Second, "the mean time between faults of links, which come most often")
		flag.DurationVar(&o.ttl, "ttl", 2*time.Second, "the term of the leases")
		flag.IntVar(&o.members, "members", 3, "etcd members")
		flag.IntVar(&o.workers, "workers", 8, "worker processes")
		flag.IntVar(&o.nameN, "names", 12, "names to hold")
		flag.BoolVar(&o.auth, "auth", true, "with users that are kept to their prefix, and logins that live for two seconds")
		flag.StringVar(&o.out, "out", "dist/torture", "the folder for what comes of it")
		again := flag.String("check", "", "check a history.json again instead of making one")
		both := flag.String("compare", "", "make a table of several history.json, which are separated by commas")
		flag.Parse()
		if *both != "" {
			table, err := o.compare(strings.Split(*both, ","))
			fmt.Print(table)
			return err
		}
		if *again != "" {
			h, err := load(*again)
			if err != nil {
				return err
			}
			o.ttl = h.TTL // the bounds follow from it
			return o.conclude(h)
		}
		return o.run(ctx)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// errViolated: the checks found something.
var errViolated = errors.New("the checks found violations")

func (o options) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // temporary
	h, err := o.record(ctx, dir)
	if err != nil {
		return err
	}
	return o.conclude(h)
}

// conclude checks a history and writes down what came of it.
func (o options) conclude(h *history) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	h.sort()
	v := o.check(h)
	if err := errors.Join(h.save(filepath.Join(o.out, "history.json")), report(filepath.Join(o.out, "report.html"), h, v)); err != nil {
		return err
	}
	text := v.summary(h)
	fmt.Print(text)
	if err := os.WriteFile(filepath.Join(o.out, "summary.txt"), []byte(text), 0o644); err != nil {
		return err
	}
	if v.failed() {
		return errViolated
	}
	return nil
}

const torturer, password = "torturer", "not a secret"

func (o options) enableAuth(ctx context.Context, cluster *leaseholdtest.Cluster) error {
	return cluster.EnableAuth(ctx, leaseholdtest.User{Name: torturer, Password: password, Prefixes: []string{keyPrefix}})
}

// command is what makes such a run again.
func (o options) command() string {
	return fmt.Sprintf("go run ./internal/torture -subject %s -seed %d -for %v -calm %v -rewinds %d -every %v -ttl %v -members %d -workers %d -names %d -auth=%v",
		o.subject, o.seed, o.length, o.calm, o.rewinds, o.every, o.ttl, o.members, o.workers, o.nameN, o.auth)
}

// record runs everything and returns what happened.
func (o options) record(ctx context.Context, dir string) (*history, error) {
	cluster, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: o.members, AuthTokenTTL: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Close() }() // its temporary files are gone either way
	worker := leaseholdtest.ClientOptions{}
	if o.auth {
		if err := o.enableAuth(ctx, cluster); err != nil {
			return nil, err
		}
		worker.User, worker.Password = torturer, password
	}
	socket := filepath.Join(dir, "register")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	n := &nemesis{opts: o, plan: o.plan(), cluster: cluster, registry: newRegisters()}
	if err := n.login(); err != nil {
		return nil, err
	}
	defer n.logout()
	for i := range o.workers {
		cl, err := cluster.NewClient(worker) // for its links; the worker's process makes the client that uses them
		if err != nil {
			return nil, err
		}
		n.clients = append(n.clients, cl)
		n.workers = append(n.workers, &slot{number: i, dir: dir, cfg: workerConfig{
			Endpoints: cl.Endpoints(), User: worker.User, Password: worker.Password,
			Subject: o.subject, Names: o.names(), TTL: o.ttl, Seed: o.seed, Register: socket,
		}})
	}
	h := &history{Subject: o.subject, Seed: o.seed, TTL: o.ttl, Command: o.command(), Begin: machineclock.Now(), Names: o.names()}
	if err := o.play(ctx, n, listener, h); err != nil {
		return nil, err
	}
	for _, w := range n.workers {
		if err := w.collect(h); err != nil {
			return nil, err
		}
	}
	h.Faults, h.Applied = n.faults, n.registry.applied
	return h, nil
}

// play lets workers and nemesis loose, and returns when both have ended.
func (o options) play(ctx context.Context, n *nemesis, listener net.Listener, h *history) error {
	serving, closeRegister := context.WithCancel(context.WithoutCancel(ctx))
	working, stopWork := context.WithCancel(ctx)
	var register, workers sync.WaitGroup
	register.Go(func() { n.registry.serve(serving, listener) })
	defer register.Wait()
	defer closeRegister()
	errs := make([]error, len(n.workers)+2)
	for i, w := range n.workers {
		workers.Go(func() {
			if errs[i] = w.run(working); errs[i] != nil {
				stopWork() // there is nothing to learn any more
			}
		})
	}
	if errs[len(n.workers)] = n.goBack(working); errs[len(n.workers)] != nil {
		stopWork() // a cluster that is broken for good
	}
	h.Main = machineclock.Now()
	errs[len(n.workers)+1] = n.run(working)
	h.Calm = machineclock.Now()
	_ = clock.Wait(working, o.calm) // ends early if everything does
	h.End = machineclock.Now()
	stopWork()
	workers.Wait()
	return errors.Join(errs...)
}
