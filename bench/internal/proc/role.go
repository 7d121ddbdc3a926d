// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// A Role is what a started process does: begin is called with the arguments of Start and returns the part, which
// answers questions until it is closed.
type Role func(ctx context.Context, args json.RawMessage) (Part, error)

// Part is a role at work.
type Part interface {
	// Answer answers one question. It is called from one goroutine.
	Answer(ctx context.Context, verb string, args json.RawMessage) (any, error)
	// Close ends the part. Called when nobody can ask any more.
	Close() error
}

// Run plays the role that the environment names, if it names one, and reports whether it did. A program calls it first of all,
// and ends when it has returned true.
func Run(ctx context.Context, roles map[string]Role) (played bool, err error) {
	name := os.Getenv(roleVariable)
	if name == "" {
		return false, nil
	}
	role := roles[name]
	if role == nil {
		return true, fmt.Errorf("no role %q", name)
	}
	out := json.NewEncoder(os.Stdout)
	part, err := role(ctx, json.RawMessage(os.Getenv(argsVariable)))
	if err != nil {
		return true, out.Encode(answer{Error: err.Error()})
	}
	err = out.Encode(answer{})
	if err == nil {
		err = serve(ctx, part, os.Stdin, out)
	}
	return true, errors.Join(err, part.Close())
}

// serve answers questions until the input ends.
func serve(ctx context.Context, part Part, in io.Reader, out *json.Encoder) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return fmt.Errorf("not a question: %w", err)
		}
		var value any
		var err error
		if q.Verb == "usage" {
			value, err = Self()
		} else {
			value, err = part.Answer(ctx, q.Verb, q.Args)
		}
		var a answer
		if err == nil {
			a.Value, err = json.Marshal(value)
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return err
		}
	}
	return lines.Err()
}
