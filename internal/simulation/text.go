// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The text of a plan: a line for the world, a line for each step.
//
//	world seed=7 members=3 hosts=2 names=1 ttl=5s ...
//	1.5s lock host=0 user=1 name=0 wait=2s for=300ms
//	2s stop member=0 for=4s
//
// All fields stand in a fixed order and none is left out, so that a plan has one text.

// Bounds of what a text may ask for, so that every plan ends.
const (
	maxSteps = 10_000
	maxTime  = 24 * time.Hour
	maxText  = 4 << 20
)

// A field is one part of a line: how it is written, and how it is read into the value that it belongs to.
type field struct {
	name string
	get  func() string
	set  func(string) error
}

func intField(name string, p *int, least, most int) field {
	return field{name, func() string { return strconv.Itoa(*p) }, func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most || strconv.Itoa(n) != s {
			return fmt.Errorf("want a number from %d to %d", least, most)
		}
		*p = n
		return nil
	}}
}

func durationField(name string, p *time.Duration) field {
	return field{name, p.String, func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil || d < 0 || d > maxTime {
			return fmt.Errorf("want a duration from 0s to %v", maxTime)
		}
		*p = d
		return nil
	}}
}

func floatField(name string, p *float64, least, most float64) field {
	return field{name, func() string { return strconv.FormatFloat(*p, 'g', -1, 64) }, func(s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || x < least || x > most {
			return fmt.Errorf("want a number from %g to %g", least, most)
		}
		*p = x + 0 // no negative zero
		return nil
	}}
}

func wordField[T ~uint8](name string, p *T, words []string, first T) field {
	return field{name, func() string { return words[*p-first] }, func(s string) error {
		i := slices.Index(words, s)
		if i < 0 {
			return fmt.Errorf("want one of %v", words)
		}
		*p = first + T(i)
		return nil
	}}
}

func (w *World) fields() []field {
	return []field{
		{"seed", func() string { return strconv.FormatUint(w.Seed, 10) }, func(s string) (err error) {
			w.Seed, err = strconv.ParseUint(s, 10, 64)
			return err
		}},
		intField("members", &w.Members, 1, 9),
		intField("hosts", &w.Hosts, 1, 20),
		intField("names", &w.Names, 1, 20),
		durationField("ttl", &w.TTL),
		floatField("drift", &w.Drift, 0, 1),
		durationField("margin", &w.Margin),
		floatField("rate", &w.Rate, 0.01, 100),
		durationField("election", &w.Election),
		durationField("commit", &w.Commit),
		durationField("apply", &w.Apply),
		durationField("peer", &w.Peer),
		durationField("delay", &w.Delay),
		durationField("stall", &w.Stall),
		{"waits", func() string { return strconv.FormatBool(w.Waits) }, func(s string) (err error) {
			w.Waits, err = strconv.ParseBool(s)
			return err
		}},
		wordField("flaw", &w.Flaw, []string{"none", "norecheck", "formerleader", "resumedleader"}, FlawNone),
	}
}

func (s *Step) field(o operand) field {
	switch o {
	case opHost:
		return intField("host", &s.Host, 0, 19)
	case opUser:
		return intField("user", &s.User, 0, users-1)
	case opMember:
		return intField("member", &s.Member, 0, 8)
	case opName:
		return intField("name", &s.Name, 0, 19)
	case opFor:
		return durationField("for", &s.For)
	case opWait:
		return durationField("wait", &s.Wait)
	case opDir:
		return wordField("dir", &s.Dir, []string{"up", "down", "both"}, Up)
	case opCall:
		return wordField("call", &s.Call, []string{"txn", "grant", "revoke", "keepalive", "watch"}, MethodTxn)
	case opCount:
		return intField("count", &s.Count, 0, 1_000_000)
	default:
		return floatField("rate", &s.Rate, 0, 100)
	}
}

func (s *Step) fields(of spec) []field {
	var all []field
	for _, o := range of.operands {
		all = append(all, s.field(o))
	}
	return all
}

// String returns the step's text.
func (s Step) String() string {
	of, _ := specOf(s.Do)
	return s.At.String() + " " + string(s.Do) + write(s.fields(of))
}

func write(fields []field) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(" " + f.name + "=" + f.get())
	}
	return b.String()
}

// String returns the plan's text, which [Parse] reads.
func (p Plan) String() string {
	lines := []string{"world" + write(p.World.fields())}
	for _, s := range p.Steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// Parse reads the text of a plan. Empty lines, and lines that begin with "#", are passed over.
func Parse(text string) (Plan, error) {
	if len(text) > maxText {
		return Plan{}, fmt.Errorf("simulation: parse plan: %d bytes, want at most %d", len(text), maxText)
	}
	var p Plan
	world := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		var err error
		if !world {
			world = true
			err = p.World.parse(words)
		} else {
			err = p.parseStep(words)
		}
		if err != nil {
			return Plan{}, fmt.Errorf("simulation: parse plan: line %d: %w", n, err)
		}
	}
	if !world {
		return Plan{}, errors.New("simulation: parse plan: no world")
	}
	return p, nil
}

func (w *World) parse(words []string) error {
	if words[0] != "world" {
		return fmt.Errorf("%.40q, want the world first", words[0])
	}
	return read(w.fields(), words[1:])
}

func (p *Plan) parseStep(words []string) error {
	if len(p.Steps) == maxSteps {
		return fmt.Errorf("more than %d steps", maxSteps)
	}
	if len(words) < 2 {
		return errors.New("want a time and a verb")
	}
	var s Step
	if err := durationField("", &s.At).set(words[0]); err != nil {
		return fmt.Errorf("time %.40q: %w", words[0], err)
	}
	if n := len(p.Steps); n > 0 && p.Steps[n-1].At > s.At {
		return fmt.Errorf("%v is before the step above", s.At)
	}
	of, ok := specOf(Verb(words[1]))
	if !ok {
		return fmt.Errorf("no verb %.40q", words[1])
	}
	s.Do = of.verb
	if err := read(s.fields(of), words[2:]); err != nil {
		return err
	}
	switch {
	case s.Host >= p.World.Hosts:
		return fmt.Errorf("host %d of %d", s.Host, p.World.Hosts)
	case s.Member >= p.World.Members:
		return fmt.Errorf("member %d of %d", s.Member, p.World.Members)
	case s.Name >= p.World.Names:
		return fmt.Errorf("name %d of %d", s.Name, p.World.Names)
	case s.Do == Rate && s.Rate < 0.01:
		return errors.New("a clock that stands still")
	}
	p.Steps = append(p.Steps, s)
	return nil
}

func read(fields []field, words []string) error {
	if len(words) != len(fields) {
		return fmt.Errorf("%d fields, want %d", len(words), len(fields))
	}
	for i, f := range fields {
		value, ok := strings.CutPrefix(words[i], f.name+"=")
		if !ok {
			return fmt.Errorf("%.40q, want %s", words[i], f.name)
		}
		if err := f.set(value); err != nil {
			return fmt.Errorf("%.40q: %w", words[i], err)
		}
	}
	return nil
}
