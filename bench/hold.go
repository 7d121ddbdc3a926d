// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
	"example.com/leasehold/bench/internal/proc"
	"example.com/leasehold/internal/clock"
)

// holderRole is a process that holds sessions and locks: to be weighed without anything else in it, or to be killed.
const holderRole = "holder"

type holderArgs struct {
	Subject   subject
	Endpoints []string
	Prefix    string
	TTL       time.Duration
	Sessions  int           // leases; 0: as many as the subject needs
	Locks     int           // names in all, spread over the sessions
	Over      time.Duration // the sessions are opened over this time, so that their renewals do not fall together
}

// holding is what a holder tells about itself.
type holding struct {
	Alive      int // of the sessions, or of the locks where Sessions is 0
	Keepalives int64
	Requests   int64
}

// holder is the part of holderRole.
type holder struct {
	args    holderArgs
	client  *clientv3.Client
	traffic traffic

	pool     *leasehold.Client
	grants   []*leasehold.Grant
	sessions []*leasehold.Session
	theirs   []*concurrency.Session
}

func hold(ctx context.Context, text json.RawMessage) (proc.Part, error) {
	h := &holder{}
	err := json.Unmarshal(text, &h.args)
	if err != nil {
		return nil, err
	}
	h.client, err = dial(ctx, h.args.Endpoints, h.traffic.options()...)
	return h, err
}

func (h *holder) Answer(ctx context.Context, verb string, _ json.RawMessage) (any, error) {
	switch verb {
	case "open":
		return nil, h.open(ctx)
	case "weigh":
		runtime.GC()
		debug.FreeOSMemory() // collects again
		return proc.Self()
	case "state":
		c := h.traffic.counts()
		return holding{h.alive(), c.keepalives, c.requests}, nil
	}
	return nil, fmt.Errorf("a holder does not know %q", verb)
}

func (h *holder) open(ctx context.Context) error {
	a := h.args
	if a.Sessions == 0 {
		return h.openPool(ctx)
	}
	h.sessions, h.theirs = make([]*leasehold.Session, a.Sessions), make([]*concurrency.Session, a.Sessions)
	begin := time.Now()
	return sideBySide(a.Sessions, 64, func(i int) (err error) {
		if err := clock.Wait(ctx, time.Until(begin.Add(a.Over*time.Duration(i)/time.Duration(a.Sessions)))); err != nil {
			return err
		}
		var lock func(name string) error
		if a.Subject == ours {
			h.sessions[i], err = leasehold.NewSession(ctx, h.client, leasehold.Config{TTL: a.TTL, Prefix: a.Prefix})
			lock = func(name string) error {
				_, err := h.sessions[i].Lock(ctx, name)
				return err
			}
		} else {
			h.theirs[i], err = concurrency.NewSession(h.client, concurrency.WithTTL(int(a.TTL/time.Second)))
			lock = func(name string) error { return concurrency.NewMutex(h.theirs[i], a.Prefix+name).Lock(ctx) }
		}
		for j := i; j < a.Locks && err == nil; j += a.Sessions {
			err = lock(heldName(j))
		}
		return err
	})
}

func heldName(i int) string { return fmt.Sprintf("held-%d", i) }

// openPool takes all locks through one Client.
func (h *holder) openPool(ctx context.Context) (err error) {
	if h.args.Subject != ours {
		return errors.New("only Leasehold has a pool of sessions")
	}
	if h.pool, err = leasehold.New(h.client, leasehold.Config{TTL: h.args.TTL, Prefix: h.args.Prefix}); err != nil {
		return err
	}
	h.grants = make([]*leasehold.Grant, h.args.Locks)
	return sideBySide(h.args.Locks, 256, func(i int) (err error) {
		h.grants[i], err = h.pool.Lock(ctx, heldName(i))
		return err
	})
}

func (h *holder) alive() int {
	n := 0
	for _, g := range h.grants {
		if g.Valid() {
			n++
		}
	}
	for _, s := range h.sessions {
		if s != nil && s.Valid() {
			n++
		}
	}
	for _, s := range h.theirs {
		if s != nil {
			select {
			case <-s.Done():
			default:
				n++
			}
		}
	}
	return n
}

// Close closes what is held.
func (h *holder) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := sideBySide(len(h.sessions)+len(h.theirs), 64, func(i int) error {
		if i < len(h.sessions) && h.sessions[i] != nil {
			return h.sessions[i].Close(ctx)
		}
		if i -= len(h.sessions); i >= 0 && h.theirs[i] != nil {
			return h.theirs[i].Close()
		}
		return nil
	})
	if h.pool != nil {
		err = errors.Join(err, h.pool.Close(ctx))
	}
	return errors.Join(err, h.client.Close())
}

// holderProcess is a started holder.
type holderProcess struct{ *proc.Process }

func startHolder(args holderArgs) (holderProcess, error) {
	p, err := proc.Start(holderRole, args)
	return holderProcess{p}, err
}

func (h holderProcess) open() error { return h.Ask("open", nil, nil) }

// weigh collects the garbage of the process and returns what it uses.
func (h holderProcess) weigh() (u proc.Usage, err error) {
	err = h.Ask("weigh", nil, &u)
	return u, err
}

func (h holderProcess) state() (s holding, err error) {
	err = h.Ask("state", nil, &s)
	return s, err
}

// stopPatience is how long a holder may take to close all that it holds.
const stopPatience = 90 * time.Second
