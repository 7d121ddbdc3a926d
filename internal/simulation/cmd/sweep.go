// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"example.com/leasehold/internal/simulation"
)

// chunk is how many schedules one process runs, so that it stays small.
const chunk = 500

// sweep is a run over many seeds.
type sweep struct {
	options
	binary string
	began  time.Time

	mu     sync.Mutex
	total  simulation.Stats
	failed int
}

// event is what a process says before and after each schedule; see the tests of package simulation.
type event struct {
	Seed       uint64
	Done       bool
	Violations []string
	Trace      []string
	Stats      simulation.Stats
}

type seeds struct {
	first uint64
	n     int
}

func (o options) sweep(ctx context.Context, binary string) error {
	s := &sweep{options: o, binary: binary, began: time.Now()}
	work := make(chan seeds)
	go func() {
		defer close(work)
		for done := 0; done < o.n; done += chunk {
			select {
			case work <- seeds{o.seed + uint64(done), min(chunk, o.n-done)}:
			case <-ctx.Done():
				return
			}
		}
	}()
	errs := make([]error, o.procs)
	var wg sync.WaitGroup
	for i := range o.procs {
		wg.Go(func() {
			for some := range work {
				if errs[i] = s.all(ctx, some); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	took := time.Since(s.began)
	s.printf("%v%v for all, %v for 1,000, in %d processes\n", s.total, took.Round(time.Second),
		(took * 1000 / time.Duration(max(1, s.total.Plans))).Round(100*time.Millisecond), o.procs)
	switch {
	case s.failed > 0:
		return fmt.Errorf("%d of %d schedules failed: see %s", s.failed, s.total.Plans, o.out)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	s.printf("no violation\n")
	return nil
}

// all runs some seeds, in as many processes as it takes: one that dies is followed by another.
func (s *sweep) all(ctx context.Context, some seeds) error {
	for some.n > 0 && ctx.Err() == nil {
		last, died, err := s.process(ctx, some)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case died == "":
			return nil
		}
		s.mu.Lock()
		s.failed++
		s.total.Plans++
		s.mu.Unlock()
		s.printf("seed %d: the process died\n", last)
		if err := s.keep(last, died); err != nil {
			return err
		}
		next := last + 1
		some = seeds{next, some.n - int(next-some.first)}
	}
	return nil
}

// process runs some seeds in one process. It returns which it died of, and its last words, if it did.
func (s *sweep) process(ctx context.Context, some seeds) (last uint64, died string, err error) {
	test := exec.CommandContext(ctx, s.binary, "-test.run", "^TestSchedules$", "-test.timeout", "0",
		"-simulation.json", "-simulation.seed", strconv.FormatUint(some.first, 10), "-simulation.n", strconv.Itoa(some.n))
	var stderr bytes.Buffer
	test.Stderr = &stderr
	stdout, err := test.StdoutPipe()
	if err != nil {
		return 0, "", err
	}
	if err := test.Start(); err != nil {
		return 0, "", err
	}
	last = some.first
	under := false // a schedule is under way
	hung := time.AfterFunc(s.hang, func() { _ = test.Process.Signal(syscall.SIGQUIT) })
	defer hung.Stop()
	var rest strings.Builder
	lines := bufio.NewReader(stdout)
	for {
		line, rerr := lines.ReadString('\n')
		var e event
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &e) != nil {
			rest.WriteString(line)
		} else {
			hung.Reset(s.hang)
			last, under = e.Seed, !e.Done
			if err := s.heard(e); err != nil {
				return 0, "", err
			}
		}
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return 0, "", rerr
		}
	}
	if err := test.Wait(); err != nil && under {
		return last, fmt.Sprintf("%v\n%s\n%s", err, rest.String(), stderr.String()), nil
	}
	return last, "", nil // what failed has been heard of
}

func (s *sweep) heard(e event) error {
	if !e.Done {
		return nil
	}
	s.mu.Lock()
	s.total.Add(e.Stats)
	done, took := s.total.Plans, time.Since(s.began)
	if len(e.Violations) > 0 {
		s.failed++
	}
	s.mu.Unlock()
	if done%1000 == 0 {
		s.printf("%d of %d, %v\n", done, s.n, took.Round(time.Second))
	}
	if len(e.Violations) == 0 {
		return nil
	}
	text := strings.Join(e.Violations, "\n")
	s.printf("seed %d:\n%s\nrepeat it with: go run ./internal/simulation/cmd -seed %d -repeat 100\n", e.Seed, text, e.Seed)
	return s.keep(e.Seed, text+"\n\n"+strings.Join(e.Trace, "\n"))
}
