// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/internal/clock"
	"example.com/leasehold/leaseholdtest"
)

type stormOptions struct {
	terms, processes, elections int
	ttl, limit                  time.Duration
	slack                       time.Duration // for a busy machine
	seed                        uint64
}

// slowest is how long work takes to return at most.
const slowest = 1500 * time.Millisecond

// bound is how long nobody may lead. The worst that is meant to happen: the leader is cut off or killed just after it has
// renewed (a term); a new leader of etcd arms its lease again (a term and an election timeout); etcd finds the expiry half a
// second late and commits; the next in line is stopped at that moment (a term); and work that was told to stop is slow.
func (o stormOptions) bound() time.Duration {
	return 3*o.ttl + time.Second + 600*time.Millisecond + slowest + o.slack
}

// storm lets faults loose on the processes, one at a time on each of all but one of them, until there were enough terms.
func storm(ctx context.Context, o stormOptions, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
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
	f, err := newFleet(cluster, o.processes, dir, "-elections", itoa(o.elections), "-ttl", o.ttl.String(), "-slow", slowest.String(), "-fickle")
	if err != nil {
		return err
	}
	began := now()
	s := &weather{options: o, cluster: cluster, fleet: f, faults: make(map[string]int), spared: make(chan struct{}, o.processes-1)}
	trouble, calm := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	for _, m := range f.members {
		if err := m.start(); err != nil {
			calm(err)
			break
		}
		wg.Go(func() {
			if err := s.plague(trouble, m); err != nil {
				calm(err)
			}
		})
	}
	wg.Go(func() { s.plagueEtcd(trouble) })
	wg.Go(func() { calm(s.enough(trouble)) })
	wg.Wait()
	err = context.Cause(trouble)
	if errors.Is(err, errEnough) {
		err = nil
	}
	if err = errors.Join(err, f.close()); err != nil {
		return fmt.Errorf("seed %d: %w", o.seed, err)
	}
	return s.report(now()-began, out)
}

// weather is what happens to the processes of a storm.
type weather struct {
	options stormOptions
	cluster *leaseholdtest.Cluster
	fleet   *fleet
	spared  chan struct{} // holds one for each process that is in trouble; one at least is not

	mu     sync.Mutex
	faults map[string]int
}

func (s *weather) note(fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[fault]++
}

var errEnough = errors.New("there were enough terms")

// enough returns errEnough when there were enough terms.
func (s *weather) enough(ctx context.Context) error {
	for {
		if err := clock.Wait(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		all, err := s.fleet.reigns()
		if err != nil {
			return err
		}
		if len(all) >= s.options.terms {
			return errEnough
		}
	}
}

// plague makes one process suffer again and again, and leaves it well in the end.
func (s *weather) plague(ctx context.Context, m *member) error {
	rng := rand.New(rand.NewPCG(s.options.seed, uint64(m.index)))
	some := func(d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }
	ttl := s.options.ttl
	for clock.Wait(ctx, some(2*ttl)) == nil {
		select {
		case s.spared <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		var err error
		switch n := rng.IntN(12); n {
		case 0, 1:
			s.note("kill")
			err = m.kill()
			_ = clock.Wait(ctx, some(ttl))
			err = errors.Join(err, m.start())
		case 2, 3:
			s.note("end in order")
			err = m.stop()
			_ = clock.Wait(ctx, some(ttl/2))
			err = errors.Join(err, m.start())
		case 4, 5, 6:
			s.note("stop and go on")
			err = m.signal(syscall.SIGSTOP)
			_ = clock.Wait(ctx, some(3*ttl))
			err = errors.Join(err, m.signal(syscall.SIGCONT))
		case 7:
			s.note("cut")
			m.links.Blackhole(leaseholdtest.Both)
			_ = clock.Wait(ctx, some(3*ttl))
			m.links.Heal()
		case 8:
			s.note("hold answers")
			m.links.Hold(leaseholdtest.Down)
			_ = clock.Wait(ctx, some(3*ttl))
			m.links.Heal()
		case 9:
			s.note("reset")
			m.links.Reset()
		default:
			s.note("step down")
			err = m.signal(syscall.SIGUSR1)
		}
		<-s.spared
		if err != nil {
			return err
		}
	}
	return nil
}

// plagueEtcd takes etcd's leader away now and then.
func (s *weather) plagueEtcd(ctx context.Context) {
	rng := rand.New(rand.NewPCG(s.options.seed, 1<<32))
	for clock.Wait(ctx, 5*time.Second+time.Duration(rng.Int64N(int64(10*time.Second)))) == nil {
		leader := s.cluster.Leader()
		if leader == nil {
			continue
		}
		s.note("etcd's leader killed")
		if leader.Kill(ctx) == nil {
			_ = clock.Wait(ctx, time.Second)
			if err := leader.Restart(context.WithoutCancel(ctx)); err != nil {
				return // the storm goes on with the others
			}
		}
	}
}

func (s *weather) report(took time.Duration, out io.Writer) error {
	all, err := s.fleet.reigns()
	if err != nil {
		return err
	}
	broken, gaps := verify(all)
	fmt.Fprintf(out, "seed %d: %d terms of %d elections in %d processes within %v, faults %v\n",
		s.options.seed, len(all), len(byElection(all)), len(s.fleet.ledgers), took.Round(time.Second), s.faults)
	if n := len(gaps); n > 0 {
		fmt.Fprintf(out, "nobody led for: median %v, 90%% %v, 99%% %v, longest %v; bound %v\n", gaps[n/2], gaps[n*9/10], gaps[n*99/100], gaps[n-1], s.options.bound())
		if gaps[n-1] > s.options.bound() {
			broken = append(broken, fmt.Sprintf("nobody led for %v", gaps[n-1]))
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("seed %d: broken:\n%s", s.options.seed, strings.Join(broken, "\n"))
	}
	return nil
}
