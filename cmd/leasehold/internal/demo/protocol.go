// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/internal/machineclock"
)

// Parent and workers talk in lines of JSON: orders go to a worker's standard input, reports come from its standard
// output. The first order is always a briefing.

// briefing tells a worker who it is.
type briefing struct {
	Name      string        `json:"name"`
	Endpoints []string      `json:"endpoints"`
	Lock      string        `json:"lock"`
	TTL       time.Duration `json:"ttl"`
	Beat      time.Duration `json:"beat"` // time from one check and write to the next
}

// order is what the parent wants from a worker, or its answer to a write.
type order struct {
	Do      string    `json:"do"`                // one of the constants below
	Brief   *briefing `json:"brief,omitempty"`   // with doBrief
	Refused string    `json:"refused,omitempty"` // with doAnswer: why the register refused; empty if it accepted
}

const (
	doBrief   = "brief"
	doLock    = "lock"    // get in line, hold and write until told otherwise; counts once
	doRelease = "release" // give the lock back and stay out of the line
	doAnswer  = "answer"
)

// report is what a worker tells.
type report struct {
	Event   event                `json:"event"`
	At      machineclock.Instant `json:"at"`                // read after what it reports, except for belief ends: before
	Token   leasehold.Token      `json:"token,omitempty"`   // of the grant that it is about
	Expiry  machineclock.Instant `json:"expiry,omitempty"`  // the term's end by the worker's own clock, not earlier than the worker will believe
	Valid   bool                 `json:"valid,omitempty"`   // with evChecked
	Reason  string               `json:"reason,omitempty"`  // with evChecked when not valid, and evFailed
	Expired bool                 `json:"expired,omitempty"` // the reason is ErrExpired
	Value   string               `json:"value,omitempty"`   // with evWrite
	Unasked bool                 `json:"unasked,omitempty"` // with evWrite: written although the check had said no
}

type event string

const (
	evReady    event = "ready"
	evWaits    event = "waits"
	evAcquired event = "acquired"
	evRenewed  event = "renewed" // the expiry moved
	evChecked  event = "checked" // a check before a write
	evWrite    event = "write"   // please write this; the parent answers
	evReleased event = "released"
	evFailed   event = "failed"
)

// pen writes lines of JSON. It is safe for concurrent use.
type pen struct {
	mu sync.Mutex // keeps lines whole
	w  io.Writer
}

func (p *pen) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.w.Write(append(line, '\n'))
	return err
}

// readLines calls fn with every line of r, decoded. It returns nil at the end of r.
func readLines[T any](r io.Reader, fn func(T)) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			return fmt.Errorf("demo: not a line of the protocol: %q: %w", lines.Text(), err)
		}
		fn(v)
	}
	return lines.Err()
}
