// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/internal/clock"
	"example.com/leasehold/leaseholdtest"
)

type rollingOptions struct {
	rounds, load int
	ttl          time.Duration
	slack        time.Duration // for a commit and the hand-over, on a machine that is busy with three members of etcd
}

// rolling measures how long nobody leads among three processes: when the leader is asked to end, as in a rolling restart; when
// it is killed; and when the leader of etcd is.
func rolling(ctx context.Context, o rollingOptions, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "electionlab")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cluster, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: 3})
	if err != nil {
		return err
	}
	defer func() { _ = cluster.Close() }()
	f, err := newFleet(cluster, 3, dir, "-ttl", o.ttl.String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for _, m := range f.members {
		if err := m.start(); err != nil {
			return err
		}
	}
	load, err := startLoad(ctx, cluster, o.load)
	if err != nil {
		return err
	}
	defer load.stop()
	fmt.Fprintf(out, "three processes, three members of etcd, a term of %v\n", o.ttl)
	clean, err := f.replaceLeaders(ctx, o.rounds, (*member).stop)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-42s %s\n", "leader asked to end: nobody leads for", clean)
	killed, err := f.replaceLeaders(ctx, o.rounds, (*member).kill)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-42s %s\n", "leader killed: nobody leads for", killed)
	if worst, most := killed[len(killed)-1], o.ttl+600*time.Millisecond+o.slack; worst > most {
		return fmt.Errorf("nobody led for %v after a kill, want at most %v", worst, most)
	}
	changed, still, err := f.killEtcdLeaders(ctx, cluster, max(1, o.rounds/5))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-42s %d of %d; the leader's longest pause between two looks at its context: %v\n",
		"leader of etcd killed: our leader changed", changed, max(1, o.rounds/5), still)
	fmt.Fprintf(out, "load meanwhile: %d locks taken and released\n", load.done.Load())
	all, err := f.reigns()
	if err != nil {
		return err
	}
	if broken, _ := verify(slices.DeleteFunc(all, func(r reign) bool { return r.stops == 0 && !r.killed })); len(broken) > 0 {
		return fmt.Errorf("broken: %v", broken)
	}
	return nil
}

// sample is sorted durations.
type sample []time.Duration

func (s sample) String() string {
	r := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	return fmt.Sprintf("least %v, median %v, most %v (of %d)", r(s[0]), r(s[len(s)/2]), r(s[len(s)-1]), len(s))
}

// leader waits until somebody leads after a token, and until all processes stand in line, and returns who.
func (f *fleet) leader(ctx context.Context, after int64) (*member, reign, error) {
	for {
		if err := clock.Wait(ctx, 20*time.Millisecond); err != nil {
			return nil, reign{}, err
		}
		all, err := f.reigns()
		if err != nil {
			return nil, reign{}, err
		}
		for _, m := range f.members {
			for _, r := range all {
				if r.process == f.ledgers[m.file].path && r.token > after && r.stops == 0 {
					return m, r, nil
				}
			}
		}
	}
}

// replaceLeaders ends the leader in the given way and starts its process again, once everybody has found a place.
func (f *fleet) replaceLeaders(ctx context.Context, rounds int, end func(*member) error) (sample, error) {
	var gaps sample
	_, current, err := f.leader(ctx, 0)
	if err != nil {
		return nil, err
	}
	for range rounds {
		if err := clock.Wait(ctx, 1500*time.Millisecond); err != nil { // everybody is in line again
			return nil, err
		}
		m, r, err := f.leader(ctx, current.token-1)
		if err != nil {
			return nil, err
		}
		file := m.file
		if err := end(m); err != nil {
			return nil, err
		}
		_, next, err := f.leader(ctx, r.token)
		if err != nil {
			return nil, err
		}
		before, err := f.entry(file, r.token)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, next.begun-before.alive)
		current = next
		if err := m.start(); err != nil {
			return nil, err
		}
	}
	slices.Sort(gaps)
	return gaps, nil
}

// entry returns the entry of a process with a token.
func (f *fleet) entry(file int, token int64) (reign, error) {
	all, err := readLedger(f.ledgers[file].path, false)
	if err != nil {
		return reign{}, err
	}
	i := slices.IndexFunc(all, func(r reign) bool { return r.token == token })
	if i < 0 {
		return reign{}, fmt.Errorf("token %d is not in the ledger", token)
	}
	return all[i], nil
}

// killEtcdLeaders kills the leader of etcd again and again. It returns how often ours changed, and the longest time for
// which the leader had not looked at its context.
func (f *fleet) killEtcdLeaders(ctx context.Context, cluster *leaseholdtest.Cluster, rounds int) (changed int, still time.Duration, err error) {
	m, r, err := f.leader(ctx, 0)
	if err != nil {
		return 0, 0, err
	}
	for range rounds {
		etcd, err := cluster.WaitLeader(ctx)
		if err != nil {
			return 0, 0, err
		}
		if err := etcd.Kill(ctx); err != nil {
			return 0, 0, err
		}
		for until := now() + 5*time.Second; now() < until; {
			if err := clock.Wait(ctx, 10*time.Millisecond); err != nil {
				return 0, 0, err
			}
			e, err := f.entry(m.file, r.token)
			if err != nil {
				return 0, 0, err
			}
			still = max(still, now()-e.alive)
		}
		if err := etcd.Restart(ctx); err != nil {
			return 0, 0, err
		}
		next, l, err := f.leader(ctx, 0)
		if err != nil {
			return 0, 0, err
		}
		if l.token != r.token {
			changed++
		}
		m, r = next, l
	}
	return changed, still, nil
}

// A load locks and unlocks names of its own on the same cluster.
type load struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	done   atomic.Int64
}

func startLoad(ctx context.Context, cluster *leaseholdtest.Cluster, goroutines int) (*load, error) {
	client, err := cluster.NewDirectClient(leaseholdtest.ClientOptions{})
	if err != nil {
		return nil, err
	}
	pool, err := leasehold.New(client, leasehold.Config{})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &load{cancel: cancel}
	var workers sync.WaitGroup
	for i := range goroutines {
		workers.Go(func() {
			for ctx.Err() == nil {
				if g, err := pool.Lock(ctx, fmt.Sprint("load ", i)); err == nil {
					_ = g.Release(ctx)
					l.done.Add(1)
				}
				_ = clock.Wait(ctx, 2*time.Millisecond)
			}
		})
	}
	l.wg.Go(func() {
		workers.Wait()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = pool.Close(closing)
		_ = client.Close()
	})
	return l, nil
}

func (l *load) stop() {
	l.cancel()
	l.wg.Wait()
}
