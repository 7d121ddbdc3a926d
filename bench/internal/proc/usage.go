// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"
)

// Usage is what a process has used so far, and what it has now.
type Usage struct {
	User, System time.Duration // processor time
	Resident     int64         // bytes of memory that the kernel has given to the process
	Live         int64         // bytes on the heap and on stacks; after a collection if Collect was called before
	Goroutines   int
}

// CPU is the processor time in all.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// Self returns what this process has used. It stops the world for some microseconds.
func Self() (Usage, error) {
	u, err := Spent()
	if err != nil {
		return Usage{}, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Live, u.Goroutines = int64(m.HeapAlloc+m.StackInuse), runtime.NumGoroutine()
	u.Resident, err = resident()
	return u, err
}

// Spent returns the processor time of this process alone.
func Spent() (Usage, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("getrusage: %w", err)
	}
	return Usage{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano())}, nil
}

// resident reads the resident set from Linux's /proc.
func resident() (int64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("resident set: %w", err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		return 0, fmt.Errorf("resident set: %w", err)
	}
	return pages * int64(os.Getpagesize()), nil
}
