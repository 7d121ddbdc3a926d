// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"example.com/leasehold"
)

const childCommand = "child"

// A candidate is the program of one process: an elector for each election.
type candidate struct {
	ledger *ledger
	slow   time.Duration // work takes up to that long to return after its context has ended
	fickle bool          // work returns by itself now and then
}

func child(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet(childCommand, flag.ContinueOnError)
	endpoints := flags.String("endpoints", "", "of etcd")
	elections := flags.Int("elections", 1, "to stand for")
	ttl := flags.Duration("ttl", time.Second, "the term")
	path := flags.String("ledger", "", "the file for the entries")
	c := candidate{}
	flags.DurationVar(&c.slow, "slow", 0, "the longest time that work takes to return")
	flags.BoolVar(&c.fickle, "fickle", false, "work returns by itself now and then")
	if err := flags.Parse(args); err != nil {
		return err
	}
	downs := make(chan os.Signal, 1)
	signal.Notify(downs, syscall.SIGUSR1)
	// From here on, when the file is there, no signal ends the process in any other than the orderly way.
	if c.ledger, err = createLedger(*path); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.ledger.file.Close()) }()
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(*endpoints, ","), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	pool, err := leasehold.New(client, leasehold.Config{TTL: *ttl})
	if err != nil {
		return err
	}
	var electors []*leasehold.Elector
	errs := make([]error, *elections)
	var running sync.WaitGroup
	for i := range *elections {
		e, err := c.elector(pool, int64(i))
		if err != nil {
			return err
		}
		electors = append(electors, e)
		running.Go(func() { errs[i] = e.Run(ctx) })
	}
	go stepDownOnSignal(ctx, downs, electors)
	running.Wait()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(append(errs, pool.Close(closing))...)
}

// stepDownOnSignal steps down from one election that this process leads, for each signal.
func stepDownOnSignal(ctx context.Context, signals <-chan os.Signal, electors []*leasehold.Elector) {
	for {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		for _, i := range rand.Perm(len(electors)) {
			if electors[i].IsLeader() {
				go func() { _ = electors[i].StepDown(ctx) }()
				break
			}
		}
	}
}

func (c *candidate) elector(pool *leasehold.Client, election int64) (*leasehold.Elector, error) {
	var place int64
	var r reign
	return leasehold.NewElector(pool, leasehold.ElectorConfig{
		Name: fmt.Sprint("election ", election),
		OnStartedLeading: func(ctx context.Context, l *leasehold.Leadership) {
			r = reign{election: election, begun: now()}
			if ctx.Err() == nil {
				r.alive = r.begun
			}
			r.token = int64(l.Token())
			var err error
			if place, err = c.ledger.enter(r); err != nil {
				fmt.Fprintln(os.Stderr, "ledger:", err)
			}
			c.work(ctx, place, &r)
		},
		OnStoppedLeading: func() {
			r.stops++
			if err := c.ledger.write(place, r); err != nil {
				fmt.Fprintln(os.Stderr, "ledger:", err)
			}
		},
		HoldOff: 500 * time.Millisecond,
	})
}

// work notes for how long it has seen its context alive, until it ends, and then takes its time.
func (c *candidate) work(ctx context.Context, place int64, r *reign) {
	beat := time.NewTicker(time.Millisecond)
	defer beat.Stop()
	var enough <-chan time.Time
	if c.fickle && rand.IntN(4) == 0 {
		timer := time.NewTimer(rand.N(3 * time.Second))
		defer timer.Stop()
		enough = timer.C
	}
	for {
		at := now()
		if ctx.Err() != nil {
			break
		}
		r.alive = at
		if err := c.ledger.write(place, *r); err != nil {
			fmt.Fprintln(os.Stderr, "ledger:", err)
		}
		select {
		case <-beat.C:
		case <-ctx.Done():
		case <-enough:
			return
		}
	}
	if c.slow > 0 {
		pause := rand.N(c.slow / 10)
		if rand.IntN(5) == 0 {
			pause = rand.N(c.slow)
		}
		timer := time.NewTimer(pause)
		defer timer.Stop()
		<-timer.C
	}
}
