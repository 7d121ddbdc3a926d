// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/internal/clock"
	"example.com/leasehold/internal/machineclock"
)

// registers are the resource: a value for each name, which only ever accepts the tokens that it has seen last, or higher ones.
type registers struct {
	fence leasehold.Fence

	mu      sync.Mutex // makes the check and the write that it admits one step
	values  map[string]string
	applied []applied

	nemesisMu sync.Mutex
	slow      map[int]time.Duration // by worker slot: how long a request may take to arrive
	traps     map[int]*trap         // by worker slot
}

// trap is what happens to a worker that is about to write.
type trap struct {
	spring func() bool
	sprung chan struct{}
}

// request is what a worker sends, an answer to each.
type request struct {
	Slot   int
	Intent bool // it has checked that it holds the name, and will write next; the answer says nothing
	Name   string
	Token  int64
	Value  string
	Read   bool
}

type answer struct {
	OK      bool
	Highest int64
	Value   string // before this request
}

func newRegisters() *registers {
	return &registers{values: make(map[string]string), slow: make(map[int]time.Duration), traps: make(map[int]*trap)}
}

// serve answers on l until ctx ends.
func (r *registers) serve(ctx context.Context, l net.Listener) {
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return // closed
		}
		open.Go(func() {
			defer func() { _ = conn.Close() }() // nothing is lost with it
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			r.talk(ctx, conn)
		})
	}
}

func (r *registers) talk(ctx context.Context, conn net.Conn) {
	in, out := json.NewDecoder(bufio.NewReader(conn)), json.NewEncoder(conn)
	for {
		var q request
		if in.Decode(&q) != nil {
			return // the worker has gone
		}
		if q.Intent {
			r.intended(q.Slot) // before the answer: the worker has not gone on
			if out.Encode(answer{}) != nil {
				return
			}
			continue
		}
		r.nemesisMu.Lock()
		slow := r.slow[q.Slot]
		r.nemesisMu.Unlock()
		if slow > 0 && clock.Wait(ctx, rand.N(slow)) != nil {
			return
		}
		if out.Encode(r.do(q)) != nil {
			return
		}
	}
}

// do is the atomic step of the register.
func (r *registers) do(q request) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.values[q.Name]
	if q.Read {
		return answer{OK: true, Value: before}
	}
	if err := r.fence.Check(q.Name, leasehold.Token(q.Token)); err != nil {
		var stale *leasehold.StaleTokenError
		if errors.As(err, &stale) {
			return answer{Highest: int64(stale.Highest), Value: before}
		}
		return answer{Value: before}
	}
	r.values[q.Name] = q.Value
	r.applied = append(r.applied, applied{At: machineclock.Now(), Name: q.Name, Token: q.Token, Value: q.Value})
	return answer{OK: true, Highest: q.Token, Value: before}
}

// setSlow makes the requests of a worker slot take up to d to arrive.
func (r *registers) setSlow(slot int, d time.Duration) {
	r.nemesisMu.Lock()
	defer r.nemesisMu.Unlock()
	r.slow[slot] = d
}

// atIntent calls spring once, when the slot's worker is next about to write, while it waits for its answer. If spring reports
// true, the channel is closed. nil takes spring back.
func (r *registers) atIntent(slot int, spring func() bool) <-chan struct{} {
	r.nemesisMu.Lock()
	defer r.nemesisMu.Unlock()
	if spring == nil {
		delete(r.traps, slot)
		return nil
	}
	t := &trap{spring: spring, sprung: make(chan struct{})}
	r.traps[slot] = t
	return t.sprung
}

func (r *registers) intended(slot int) {
	r.nemesisMu.Lock()
	t := r.traps[slot]
	delete(r.traps, slot)
	r.nemesisMu.Unlock()
	if t != nil && t.spring() {
		close(t.sprung)
	}
}

// registerClient is a worker's connection, used by one goroutine.
type registerClient struct {
	slot int
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func dialRegister(path string, slot int) (*registerClient, error) {
	conn, err := net.Dial("unix", path)
	if err != nil {
		return nil, fmt.Errorf("dial the register: %w", err)
	}
	return &registerClient{slot: slot, conn: conn, in: json.NewDecoder(bufio.NewReader(conn)), out: json.NewEncoder(conn)}, nil
}

func (c *registerClient) ask(q request) (answer, error) {
	q.Slot = c.slot
	if err := c.out.Encode(q); err != nil {
		return answer{}, err
	}
	var a answer
	return a, c.in.Decode(&a)
}
