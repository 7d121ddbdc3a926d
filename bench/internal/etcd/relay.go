// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"example.com/leasehold/bench/internal/proc"
)

type relayArgs struct {
	Targets []string      // addresses of members
	Delay   time.Duration // of each byte, in each direction
}

// relayPart passes bytes on, each after a delay: a network of a longer way. It runs in a process of its own, so that
// neither client nor member pays for it.
type relayPart struct {
	delay     time.Duration
	listeners []net.Listener
}

func relay(_ context.Context, text json.RawMessage) (proc.Part, error) {
	var args relayArgs
	if err := json.Unmarshal(text, &args); err != nil {
		return nil, err
	}
	r := &relayPart{delay: args.Delay}
	for _, target := range args.Targets {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.listeners = append(r.listeners, l)
		go r.accept(l, target)
	}
	return r, nil
}

func (r *relayPart) Answer(_ context.Context, verb string, _ json.RawMessage) (any, error) {
	if verb != "addresses" {
		return nil, fmt.Errorf("a relay does not know %q", verb)
	}
	var addresses []string
	for _, l := range r.listeners {
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
}

// Close closes the listeners. Connections end with their ends, or with the process.
func (r *relayPart) Close() error {
	var errs []error
	for _, l := range r.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

func (r *relayPart) accept(l net.Listener, target string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", target)
		if err != nil {
			_ = near.Close()
			continue
		}
		var both sync.WaitGroup
		both.Go(func() { r.carry(far, near) })
		both.Go(func() { r.carry(near, far) })
		go func() {
			both.Wait()
			_ = near.Close()
			_ = far.Close()
		}()
	}
}

// piece is what was read at once, and when it may go on.
type piece struct {
	bytes []byte
	due   time.Time
}

// carry passes what comes from one side on to the other, in order, each piece after the delay: it goes on reading
// meanwhile, so that the delay does not bound the throughput.
func (r *relayPart) carry(to, from net.Conn) {
	pieces := make(chan piece, 4096)
	go func() {
		defer close(pieces)
		for {
			buffer := make([]byte, 16<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				pieces <- piece{buffer[:n], time.Now().Add(r.delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	failed := false
	for p := range pieces {
		if failed {
			continue // until the reader has ended
		}
		if wait := time.Until(p.due); wait > 0 {
			timer.Reset(wait)
			<-timer.C
		}
		if _, err := to.Write(p.bytes); err != nil {
			failed = true
			_ = from.Close()
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}
