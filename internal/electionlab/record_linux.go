// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// now reads the monotonic clock that all processes of the machine share.
func now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// A reign is the entry of one started work.
type reign struct {
	election int64
	token    int64
	begun    time.Duration // read before the work first asked its context
	alive    time.Duration // the last reading after which the context was found alive
	stops    int64         // calls of OnStoppedLeading
	process  string        // of the ledger that holds the entry
	killed   bool          // its process did not come to an orderly end
}

const entrySize = 5 * 8

// A ledger is the file in which one process enters its reigns, each in a place of its own.
type ledger struct {
	file *os.File
	mu   sync.Mutex
	next int64
}

func createLedger(path string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{file: f}, nil
}

// enter adds an entry and returns its place.
func (l *ledger) enter(r reign) (place int64, err error) {
	l.mu.Lock()
	place = l.next
	l.next++
	l.mu.Unlock()
	return place, l.write(place, r)
}

// write puts an entry in its place: one write, which a kill does not tear.
func (l *ledger) write(place int64, r reign) error {
	var b [entrySize]byte
	for i, v := range []int64{r.election, r.token, int64(r.begun), int64(r.alive), r.stops} {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(v))
	}
	_, err := l.file.WriteAt(b[:], place*entrySize)
	return err
}

func readLedger(path string, killed bool) ([]reign, error) {
	data, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil // killed before it began
	}
	if err != nil {
		return nil, err
	}
	var all []reign
	for ; len(data) >= entrySize; data = data[entrySize:] {
		v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) }
		if v(1) == 0 {
			continue // reserved, and killed before it was written
		}
		all = append(all, reign{
			election: v(0), token: v(1), begun: time.Duration(v(2)), alive: time.Duration(v(3)), stops: v(4),
			process: path, killed: killed,
		})
	}
	return all, nil
}

// byElection sorts the reigns of each election by token.
func byElection(all []reign) map[int64][]reign {
	sorted := make(map[int64][]reign)
	for _, r := range all {
		sorted[r.election] = append(sorted[r.election], r)
	}
	for _, reigns := range sorted {
		slices.SortFunc(reigns, func(a, b reign) int { return cmp.Compare(a.token, b.token) })
	}
	return sorted
}

// verify returns what of the promises was broken, and the times for which nobody led.
func verify(all []reign) (broken []string, gaps []time.Duration) {
	bad := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for election, reigns := range byElection(all) {
		for i, r := range reigns {
			if r.stops > 1 || r.stops == 0 && !r.killed {
				bad("election %d, token %d: OnStoppedLeading was called %d times", election, r.token, r.stops)
			}
			if i == 0 {
				continue
			}
			before := reigns[i-1]
			if r.token == before.token {
				bad("election %d: token %d twice", election, r.token)
			}
			gap := r.begun - max(before.begun, before.alive)
			if gap <= 0 {
				bad("election %d: token %d began %v before the context of token %d was last seen alive", election, r.token, -gap, before.token)
			}
			gaps = append(gaps, gap)
		}
	}
	slices.Sort(gaps)
	return broken, gaps
}
