// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
)

// toy is a fence in memory with a fault.
type toy struct {
	fault string

	mu     sync.Mutex
	marks  map[string]leasehold.Token
	values map[string][]string
}

func (f *toy) write(_ context.Context, resource string, token leasehold.Token, value string, pause func()) error {
	if err := (fence.Write{Resource: resource, Token: token}).Validate(); err != nil {
		switch {
		case f.fault == "takes any token" && errors.Is(err, fence.ErrInvalidToken):
		case f.fault == "takes any name" && errors.Is(err, fence.ErrInvalidResource):
		default:
			return err
		}
	}
	key := resource
	if f.fault == "takes names for one another" {
		key = strings.ToLower(strings.TrimRight(resource, " "))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if highest := f.marks[key]; token < highest && f.fault != "does not check" || token == highest && f.fault == "refuses equal tokens" {
		if f.fault == "writes what it refuses" {
			f.values[key] = append(f.values[key], value)
		}
		if f.fault == "lets a refusal lower the mark" {
			f.marks[key] = token
		}
		if f.fault == "does not say by what" {
			return leasehold.ErrStaleToken
		}
		return &leasehold.StaleTokenError{Resource: resource, Token: token, Highest: highest}
	}
	f.marks[key] = token
	if f.fault == "compares as floating point" {
		f.marks[key] = leasehold.Token(min(float64(token), math.MaxInt64/2))
	}
	if f.fault == "checks and writes in two steps" {
		f.mu.Unlock()
		pause()
		f.mu.Lock()
	}
	if f.fault == "loses writes" && token%7 == 0 {
		return nil
	}
	f.values[key] = append(f.values[key], value)
	if f.fault == "writes twice" && token%7 == 0 {
		f.values[key] = append(f.values[key], value)
	}
	return nil
}

func (f *toy) subject() fencetest.Subject {
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return f.write(ctx, resource, token, value, func() {})
		},
		WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
			if f.fault != "checks and writes in two steps" {
				pause() // before the check: a pause under the lock would stop the others for good
			}
			return f.write(ctx, resource, token, value, pause)
		},
		Values: func(_ context.Context, resource string) ([]string, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.fault == "takes names for one another" {
				resource = strings.ToLower(strings.TrimRight(resource, " "))
			}
			return slices.Clone(f.values[resource]), nil
		},
		Restart: func(context.Context) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.fault == "forgets its marks" {
				clear(f.marks)
			}
			return nil
		},
	}
}

const faultVariable = "LEASEHOLD_FENCETEST_FAULT"

// TestToy runs the suite on the toy; with a fault in the environment it must fail, and the next test starts it so.
func TestToy(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		f := &toy{fault: os.Getenv(faultVariable), marks: make(map[string]leasehold.Token), values: make(map[string][]string)}
		return f.subject()
	}, fencetest.Options{Writes: 1_000})
}

func TestRun_FindsEveryFault(t *testing.T) {
	if os.Getenv(faultVariable) != "" {
		t.Fatal("started by itself")
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for fault, where := range map[string]string{
		"does not check":                 "OrderOfTokens",
		"refuses equal tokens":           "OrderOfTokens",
		"compares as floating point":     "OrderOfTokens",
		"does not say by what":           "OrderOfTokens",
		"writes what it refuses":         "RefusedWriteChangesNothing",
		"lets a refusal lower the mark":  "RefusedWriteChangesNothing",
		"takes any token":                "InvalidTokensAreRefused",
		"takes any name":                 "InvalidResourcesAreRefused",
		"takes names for one another":    "NamesAreStrangers",
		"checks and writes in two steps": "PausedWriteIsNotOvertaken",
		"forgets its marks":              "MarkSurvivesRestart",
		"loses writes":                   "ConcurrentWriters",
		"writes twice":                   "ConcurrentWriters",
	} {
		t.Run(fault, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), binary, "-test.run=^TestToy$", "-test.timeout=60s")
			run.Env = append(os.Environ(), faultVariable+"="+fault)
			output, err := run.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passed")
			}
			if want := fmt.Sprintf("--- FAIL: TestToy/%s ", where); !strings.Contains(string(output), want) {
				t.Fatalf("%s did not fail:\n%s", where, output)
			}
		})
	}
}
