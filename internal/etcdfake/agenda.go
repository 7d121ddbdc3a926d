// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"container/heap"
	"sync"
	"time"
)

// agenda runs functions at chosen instants, one at a time with the cluster's mutex held, ordered by instant and then
// by the order in which they were entered. It keeps one timer for the earliest of them and none when it is empty, so
// that an idle fake does not hide a deadlock from synctest.
type agenda struct {
	mu     *sync.Mutex // the cluster's; guards everything below
	events eventHeap
	seq    uint64
	timer  *time.Timer
	closed bool
}

type event struct {
	at    time.Time
	seq   uint64
	run   func()
	place int // in the heap; -1 when it is not there
}

// at enters run. The caller holds mu.
func (a *agenda) at(t time.Time, run func()) *event {
	a.seq++
	e := &event{at: t, seq: a.seq, run: run}
	heap.Push(&a.events, e)
	a.armLocked()
	return e
}

func (a *agenda) after(d time.Duration, run func()) *event { return a.at(time.Now().Add(d), run) }

// drop takes an event off the agenda; nil and events that ran are ignored. The caller holds mu.
func (a *agenda) drop(e *event) {
	if e != nil && e.place >= 0 {
		heap.Remove(&a.events, e.place)
	}
}

func (a *agenda) armLocked() {
	if a.closed || len(a.events) == 0 {
		return
	}
	d := time.Until(a.events[0].at)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.fire)
		return
	}
	a.timer.Reset(d)
}

func (a *agenda) fire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.closed && len(a.events) > 0 && !time.Now().Before(a.events[0].at) {
		heap.Pop(&a.events).(*event).run()
	}
	a.armLocked()
}

// close drops everything. The caller holds mu.
func (a *agenda) close() {
	a.closed = true
	for _, e := range a.events {
		e.place = -1 // streams that end later drop theirs
	}
	a.events = nil
	if a.timer != nil {
		a.timer.Stop()
	}
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }

func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}

func (h eventHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *eventHeap) Push(x any) {
	e := x.(*event)
	e.place = len(*h)
	*h = append(*h, e)
}

func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	e.place = -1
	return e
}
