// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"example.com/leasehold/internal/machineclock"
)

// instant is a reading of the clock that all processes of the machine share.
type instant = machineclock.Instant

// history is everything that happened in a run.
type history struct {
	Subject  string
	Seed     uint64
	TTL      time.Duration
	Command  string  // that makes such a run again
	Begin    instant // of the run
	Main     instant // when the data no longer went back, and the other faults began
	Calm     instant // when the last fault was repaired
	End      instant
	Names    []string
	Beliefs  []belief
	Acquires []acquire // that failed
	Writes   []write
	Applied  []applied // what the registers accepted, in their order
	Faults   []fault
	Deaths   int // of workers
	Checks   int // of beliefs, that said yes
}

// belief is one grant, as its holder believed in it.
type belief struct {
	ID      string // unique in the run
	Worker  string // process and goroutine
	Name    string
	Key     string
	Lease   int64
	Token   int64
	Created int64   // the create revision of the key, which one key has after another; 0: the subject does not tell
	Asked   instant // when the acquire was called
	First   instant // when it believed first, and last; zero: never
	Last    instant
	Until   instant // its own expiry as it was known at Last, if it still went on by that or would have; else as Last
	Checks  int     // how often it was found to be held
	Why     string  // how it ended
	Release string  // what the release said; "" if it was not called or said nothing
}

// killed is the Why of a belief whose process did not live to its end.
const killed = "killed"

// end is until when the holder believed, or would have if it had looked. A process that was killed counts as one that was stopped:
// it could have gone on at any instant before its own expiry, and would have been right to.
func (b belief) end() instant { return max(b.Last, b.Until) }

// acquire is a failed attempt to get a name.
type acquire struct {
	Worker string
	Name   string
	Asked  instant
	Until  instant
	Err    string
}

// write is an operation on a register, as its caller saw it.
type write struct {
	Belief  string
	Worker  string
	Name    string
	Token   int64
	Value   string
	Call    instant
	Return  instant // zero: no answer came
	OK      bool
	Highest int64 // that the register had seen, by its answer
	Seen    string
	Read    bool
}

// applied is a write that a register accepted.
type applied struct {
	At    instant
	Name  string
	Token int64
	Value string
}

// fault is something that the nemesis did.
type fault struct {
	Kind   string
	What   string
	Begin  instant
	End    instant
	Worker int // slot; -1: none in particular
	Member int // -1
	// What an operator took away.
	Keys    []string `json:",omitempty"`
	Created int64    `json:",omitempty"` // the create revision of the key; 0: not known
	Lease   int64    `json:",omitempty"`
	Rewind  bool     `json:",omitempty"` // the data went back: all that was held is void
}

// event is a line of a worker's log. Exactly one field is set.
type event struct {
	Granted *belief  `json:",omitempty"`
	Ended   *belief  `json:",omitempty"`
	Failed  *acquire `json:",omitempty"`
	Write   *write   `json:",omitempty"`
}

// readLog reads what a worker wrote: its grants and writes. A process that was killed leaves grants without an end; last tells
// when it believed in them last.
func readLog(path string, last map[string]belief, h *history) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // killed before it had begun
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // read only
	open := make(map[string]belief)
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what is behind the last line break was cut off by a kill
		}
		if err != nil {
			return err
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		switch {
		case e.Granted != nil:
			open[e.Granted.ID] = *e.Granted
		case e.Ended != nil:
			delete(open, e.Ended.ID)
			h.Beliefs = append(h.Beliefs, *e.Ended)
			h.Checks += e.Ended.Checks
		case e.Failed != nil:
			h.Acquires = append(h.Acquires, *e.Failed)
		case e.Write != nil:
			h.Writes = append(h.Writes, *e.Write)
		}
	}
	for id, b := range open {
		b.Last, b.Why = b.First, killed
		if l, ok := last[id]; ok {
			b.Last, b.Until = l.Last, l.Until
		}
		h.Beliefs = append(h.Beliefs, b)
	}
	return nil
}

func (h *history) sort() {
	slices.SortFunc(h.Beliefs, func(a, b belief) int { return int(a.First - b.First) })
	slices.SortFunc(h.Faults, func(a, b fault) int { return int(a.Begin - b.Begin) })
	slices.SortFunc(h.Writes, func(a, b write) int { return int(a.Call - b.Call) })
}

// save writes the history to a file.
func (h *history) save(path string) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func load(path string) (*history, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var h history
	if err := json.Unmarshal(text, &h); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &h, nil
}
