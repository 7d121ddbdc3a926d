// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of what a schedule's text may ask for.
const (
	maxSteps    = 10_000
	maxAt       = 24 * time.Hour
	maxMembers  = 5
	maxClients  = 1_000
	maxRate     = 1 << 40
	maxTextSize = 1 << 20
)

// String returns the schedule's text, a step a line, such as "1.5s delay c0 m2 both 100ms 20ms": the time, the
// action and what it needs.
func (s Schedule) String() string {
	lines := make([]string, len(s.Steps))
	for i, step := range s.Steps {
		lines[i] = step.String()
	}
	return strings.Join(lines, "\n")
}

// MarshalText returns the schedule's text, or an error if [ParseSchedule] would refuse it.
func (s Schedule) MarshalText() ([]byte, error) {
	text := s.String()
	if _, err := ParseSchedule(text); err != nil {
		return nil, err
	}
	return []byte(text), nil
}

// UnmarshalText does as [ParseSchedule].
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}

// ParseSchedule reads the text of a schedule, with its steps in the order of their times and separated by line breaks
// or semicolons. It returns an error that names the step otherwise.
func ParseSchedule(text string) (Schedule, error) {
	if len(text) > maxTextSize {
		return Schedule{}, fmt.Errorf("leaseholdtest: parse schedule: %d bytes: want at most %d", len(text), maxTextSize)
	}
	var s Schedule
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == ';' }) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		step, err := parseStep(fields)
		if err == nil && len(s.Steps) > 0 && step.At < s.Steps[len(s.Steps)-1].At {
			err = errors.New("it is before the previous one")
		}
		if err == nil && len(s.Steps) == maxSteps {
			err = fmt.Errorf("want at most %d steps", maxSteps)
		}
		if err != nil {
			return Schedule{}, fmt.Errorf("leaseholdtest: parse schedule: step %d: %w", len(s.Steps)+1, err)
		}
		s.Steps = append(s.Steps, step)
	}
	return s, nil
}

// String returns the step's text.
func (s Step) String() string {
	words := []string{s.At.String(), string(s.Do)}
	spec, err := s.Do.spec()
	if err != nil {
		return strings.Join(words, " ")
	}
	for _, o := range spec.operands {
		words = append(words, s.operandText(o))
	}
	return strings.Join(words, " ")
}

func (s Step) operandText(o operand) string {
	switch o {
	case opMember:
		return memberName(s.Member)
	case opOther:
		return memberName(s.Other)
	case opClient:
		return "c" + strconv.Itoa(s.Client)
	case opDir:
		return s.Dir.String()
	case opDelay:
		return s.Delay.String()
	case opJitter:
		return s.Jitter.String()
	default: // opRate
		return strconv.Itoa(s.Rate)
	}
}

func parseStep(fields []string) (Step, error) {
	if len(fields) < 2 {
		return Step{}, errors.New("want a time and an action")
	}
	at, err := parseDuration(fields[0])
	if err != nil {
		return Step{}, err
	}
	spec, err := Action(fields[1]).spec()
	if err != nil {
		return Step{}, err
	}
	words := fields[2:]
	if len(words) != len(spec.operands) {
		return Step{}, fmt.Errorf("%s needs %d operands: there are %d", spec.action, len(spec.operands), len(words))
	}
	s := Step{At: at, Do: spec.action}
	for i, o := range spec.operands {
		if err := s.parseOperand(o, words[i]); err != nil {
			return Step{}, err
		}
	}
	if spec.needs(opOther) && s.Member == s.Other {
		return Step{}, fmt.Errorf("%s needs two members", spec.action)
	}
	return s, nil
}

func (s *Step) parseOperand(o operand, word string) (err error) {
	switch o {
	case opMember:
		s.Member, err = parseIndex("m", word, maxMembers)
	case opOther:
		s.Other, err = parseIndex("m", word, maxMembers)
	case opClient:
		s.Client, err = parseIndex("c", word, maxClients)
	case opDir:
		s.Dir, err = parseDirection(word)
	case opDelay:
		s.Delay, err = parseDuration(word)
	case opJitter:
		s.Jitter, err = parseDuration(word)
	case opRate:
		s.Rate, err = strconv.Atoi(word)
		if err != nil || s.Rate < 0 || s.Rate > maxRate {
			err = fmt.Errorf("rate %.20q: want 0 to %d bytes a second", word, maxRate)
		}
	}
	return err
}

// parseIndex reads the prefix and a number below bound.
func parseIndex(prefix, word string, bound int) (int, error) {
	digits, ok := strings.CutPrefix(word, prefix)
	i, err := strconv.Atoi(digits)
	if !ok || err != nil || i < 0 || i >= bound {
		return 0, fmt.Errorf("%.20q: want %s0 to %s%d", word, prefix, prefix, bound-1)
	}
	return i, nil
}

func parseDuration(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 || d > maxAt {
		return 0, fmt.Errorf("time %.20q: want 0s to %v", word, maxAt)
	}
	return d, nil
}

// String returns "up", "down", "both" or "none".
func (d Direction) String() string {
	switch d & Both {
	case Up:
		return "up"
	case Down:
		return "down"
	case Both:
		return "both"
	default:
		return "none"
	}
}

func parseDirection(word string) (Direction, error) {
	for _, d := range []Direction{Up, Down, Both} {
		if word == d.String() {
			return d, nil
		}
	}
	return 0, fmt.Errorf("direction %.20q: want up, down or both", word)
}
