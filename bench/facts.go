// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/version"

	"example.com/leasehold/bench/internal/report"
	"example.com/leasehold/bench/internal/sample"
)

// facts writes down what the figures depend on.
func (o options) facts(r *report.Report) error {
	flush, err := o.flushTime()
	if err != nil {
		return fmt.Errorf("measure a flush to the disk: %w", err)
	}
	r.Fact("date", time.Now().UTC().Format(time.DateOnly))
	r.Fact("machine", fmt.Sprintf("%d cores, %s", runtime.NumCPU(), processor()))
	r.Fact("kernel", firstLine("/proc/sys/kernel/osrelease"))
	r.Fact("Go", runtime.Version())
	r.Fact("etcd", version.Version+", default timing, a process for each member, on the same machine")
	r.Fact("fsync", fmt.Sprintf("%v; a write of 4 KiB and its flush take %v (median) where etcd's data is", o.fsync, flush))
	r.Fact("members", fmt.Sprint(o.members))
	r.Fact("added round trip", o.rtt.String())
	r.Fact("figures", fmt.Sprintf("medians over %d rounds, of %v for each subject and load", o.rounds, o.length))
	return nil
}

// flushTime is the median time of a write that must be on the disk before it returns.
func (o options) flushTime() (_ time.Duration, err error) {
	f, err := os.CreateTemp(o.dir, "leasehold-bench-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var all []time.Duration
	for range 100 {
		begin := time.Now()
		if _, err := f.Write(make([]byte, 4<<10)); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(begin))
	}
	slices.Sort(all)
	return time.Duration(sample.Quantile(all, 0.5)).Round(time.Microsecond), nil
}

// processor is the model's name, as the kernel tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
