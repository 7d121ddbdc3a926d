// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"example.com/leasehold/internal/simulation"
)

// replay runs one schedule many times, prints what happened if it fails, and shrinks it if that is asked for.
func (o options) replay(ctx context.Context, binary, dir string) error {
	text := fmt.Sprintf("# seed %d\n%v", o.seed, simulation.New(o.seed))
	if o.plan == "" {
		o.printf("%s", text)
	} else {
		b, err := os.ReadFile(o.plan)
		if err != nil {
			return err
		}
		text = string(b)
	}
	p, err := simulation.Parse(text)
	if err != nil {
		return err
	}
	if o.repeat == 0 {
		o.repeat = 20
	}
	r := replayer{o, binary, filepath.Join(dir, "plan")}
	like, err := r.run(ctx, p, o.stdout)
	if err != nil || like == nil {
		return err
	}
	if o.shrink {
		// What a schedule left out is shown not to matter by runs that fail all the same: for the same reason, or it is another failure.
		small := simulation.Shrink(p, func(q simulation.Plan) bool {
			if ctx.Err() != nil || err != nil {
				return false
			}
			var kinds []string
			kinds, err = r.run(ctx, q, io.Discard)
			return slices.Contains(kinds, like[0])
		})
		if err := errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
		o.printf("shrunk to what is needed for %q:\n%v", like[0], small)
	}
	return fmt.Errorf("the schedule failed: %q", like)
}

func (o options) printf(format string, args ...any) { _, _ = fmt.Fprintf(o.stdout, format, args...) } // for people

// A replayer runs schedules in processes of their own, so that it survives those that end their process.
type replayer struct {
	options
	binary, file string
}

// died is what the end of a process counts as: a goroutine that is left, a panic, a schedule that takes for ever.
const died = "the process died"

var violation = regexp.MustCompile(`(?m)^\S+ +VIOLATION ([^:]+):`)

// run runs a schedule until it fails or has run often enough, and returns the kinds of its violations; nil if it never failed.
func (r replayer) run(ctx context.Context, p simulation.Plan, out io.Writer) ([]string, error) {
	if err := os.WriteFile(r.file, []byte(p.String()), 0o600); err != nil {
		return nil, err
	}
	var said bytes.Buffer
	test := exec.CommandContext(ctx, r.binary, "-test.run", "^TestPlans$", "-test.timeout", r.hang.String(),
		"-simulation.plan", r.file, "-simulation.repeat", strconv.Itoa(r.repeat))
	test.Stdout = io.MultiWriter(out, &said)
	test.Stderr = test.Stdout
	err := test.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if err == nil {
		return nil, nil
	}
	var kinds []string
	for _, m := range violation.FindAllStringSubmatch(said.String(), -1) {
		if !slices.Contains(kinds, m[1]) {
			kinds = append(kinds, m[1])
		}
	}
	if kinds == nil {
		kinds = []string{died}
	}
	return kinds, nil
}
