// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

type suite struct {
	open func(t *testing.T) Subject
	Options
}

// must writes and fails the test unless the write is accepted.
func must(t *testing.T, s Subject, resource string, token leasehold.Token, value string) {
	t.Helper()
	if err := s.Write(t.Context(), resource, token, value); err != nil {
		t.Fatalf("write %q with token %d to %q: %v", value, token, resource, err)
	}
}

// mustBeStale fails the test unless err is the refusal of token that names both tokens.
func mustBeStale(t *testing.T, err error, resource string, token, highest leasehold.Token) {
	t.Helper()
	var stale *leasehold.StaleTokenError
	if !errors.As(err, &stale) {
		t.Fatalf("write to %q with token %d after %d: got %v, want a *leasehold.StaleTokenError", resource, token, highest, err)
	}
	want := leasehold.StaleTokenError{Resource: resource, Token: token, Highest: highest}
	if *stale != want {
		t.Fatalf("refusal says %+v, want %+v", *stale, want)
	}
	if !errors.Is(err, leasehold.ErrStaleToken) {
		t.Fatalf("refusal %v does not match leasehold.ErrStaleToken", err)
	}
}

// mustHold fails the test unless resource holds exactly these values in this order.
func mustHold(t *testing.T, s Subject, resource string, want ...string) {
	t.Helper()
	got, err := s.Values(t.Context(), resource)
	if err != nil {
		t.Fatalf("read %q: %v", resource, err)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q holds %q, want %q", resource, got, want)
	}
}

func (s suite) testOrderOfTokens(t *testing.T) {
	subject := s.open(t)
	name := t.Name()
	must(t, subject, name, 7, "first")
	must(t, subject, name, 7, "equal")
	must(t, subject, name, 10, "higher")
	mustBeStale(t, subject.Write(t.Context(), name, 9, "lower"), name, 9, 10)
	mustBeStale(t, subject.Write(t.Context(), name, 1, "lowest"), name, 1, 10)
	must(t, subject, name, 10, "equal again")
	// A number that a double cannot tell from its neighbour, and the last one.
	const big = leasehold.Token(1)<<53 + 1
	must(t, subject, name, big, "big")
	mustBeStale(t, subject.Write(t.Context(), name, big-1, "one less"), name, big-1, big)
	must(t, subject, name, math.MaxInt64, "last")
	mustBeStale(t, subject.Write(t.Context(), name, math.MaxInt64-1, "last but one"), name, math.MaxInt64-1, math.MaxInt64)
	must(t, subject, name, math.MaxInt64, "last again")
	mustHold(t, subject, name, "first", "equal", "higher", "equal again", "big", "last", "last again")
}

func (s suite) testRefusedWriteChangesNothing(t *testing.T) {
	subject := s.open(t)
	name, other := t.Name(), t.Name()+"/other"
	must(t, subject, name, 5, "a")
	must(t, subject, other, 1, "b")
	for range 3 {
		// The mark must neither fall to a refused token nor rise by a refusal.
		mustBeStale(t, subject.Write(t.Context(), name, 4, "refused"), name, 4, 5)
	}
	must(t, subject, other, 1, "c") // the marks of two resources are apart
	mustHold(t, subject, name, "a")
	mustHold(t, subject, other, "b", "c")
}

func (s suite) testInvalidTokensAreRefused(t *testing.T) {
	subject := s.open(t)
	fresh, used := t.Name()+"/fresh", t.Name()+"/used"
	must(t, subject, used, 3, "a")
	for _, name := range []string{fresh, used} {
		for _, token := range []leasehold.Token{0, -1, math.MinInt64} {
			err := subject.Write(t.Context(), name, token, "refused")
			if !errors.Is(err, fence.ErrInvalidToken) || !errors.Is(err, leasehold.ErrStaleToken) {
				t.Errorf("write with token %d: got %v, want fence.ErrInvalidToken and leasehold.ErrStaleToken", token, err)
			}
		}
	}
	mustHold(t, subject, fresh)
	mustHold(t, subject, used, "a")
	must(t, subject, fresh, 1, "b")
}

func (s suite) testInvalidResourcesAreRefused(t *testing.T) {
	subject := s.open(t)
	longest := s.MaxResourceBytes
	if longest == 0 {
		longest = fence.MaxResourceBytes
	}
	for what, name := range map[string]string{
		"empty":           "",
		"a byte over":     strings.Repeat("x", longest+1),
		"a megabyte":      strings.Repeat("x", 1<<20),
		"a NUL":           "a\x00b",
		"not UTF-8":       "a\xffb",
		"cut UTF-8":       "a\xe2\x82",
		"a surrogate":     "\xed\xa0\x80",
		"an overlong NUL": "\xc0\x80",
	} {
		err := subject.Write(t.Context(), name, 1, "refused")
		if !errors.Is(err, fence.ErrInvalidResource) {
			t.Errorf("write to a name that has or is %s: got %.200v, want fence.ErrInvalidResource", what, err)
		}
		if err != nil && len(err.Error()) > 8<<10 {
			t.Errorf("the refusal of a name that has or is %s is %d bytes long", what, len(err.Error()))
		}
	}
	full := t.Name() + strings.Repeat("é", longest)
	full = full[:longest]
	full = strings.ToValidUTF8(full, "x") // may have cut an é in two
	must(t, subject, full, 1, "a")
	mustHold(t, subject, full, "a")
}

// strangers are names that something on the way to a resource could take for one another or for an instruction.
var strangers = []string{
	"a", "A", "á", "a\u0301", "a ", " a", "a/", "a//b", "a/b", "a/./b", "%61", "a%", "_", "a+b", "a b", "a\tb", "a\nb", "a\r\nb",
	"{a}", "{a}b", "}a{", "{}", "a:b", "a*", "a?b", "a#b", "a\\", "a\\'", `"a"`, "`a`", "''", "$1", "?", ":a", "@a", "\u00a0", "\u200b", "\ufeffa", "😀",
	"'; DROP TABLE leasehold_marks; --",
	"' OR '1'='1",
	"a'), ('b', 9223372036854775807) --",
	`\'; DELETE FROM leasehold_marks WHERE 1=1; -- `,
	"a\x1a", "a\u2028b", "0", "00", "1e3", "NULL", "nil", "../a", "..", ".",
}

func (s suite) testNamesAreStrangers(t *testing.T) {
	subject := s.open(t)
	prefix := t.Name()
	names := make([]string, 0, 2*len(strangers))
	for _, stranger := range strangers {
		// At both edges: a trailing blank or a leading brace means something only there.
		names = append(names, stranger+prefix, prefix+stranger)
	}
	// Rising marks first, then every name must still have its own, whatever the names after it did.
	for i, name := range names {
		must(t, subject, name, leasehold.Token(1_000-i), "value of "+name)
	}
	for i, name := range names {
		token := leasehold.Token(1_000 - i)
		mustBeStale(t, subject.Write(t.Context(), name, token-1, "refused"), name, token-1, token)
		must(t, subject, name, token, "more of "+name)
		mustHold(t, subject, name, "value of "+name, "more of "+name)
	}
}

func (s suite) testPausedWriteIsNotOvertaken(t *testing.T) {
	subject := s.open(t)
	if subject.WritePaused == nil {
		t.Log("nothing to pause: the check and the write are one request")
		return
	}
	name := t.Name()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	must(t, subject, name, 1, "before")

	paused, resume := make(chan struct{}), make(chan struct{})
	oldDone, newDone := make(chan error, 1), make(chan error, 1)
	go func() {
		oldDone <- subject.WritePaused(ctx, name, 5, "old", func() {
			close(paused)
			select {
			case <-resume:
			case <-ctx.Done():
			}
		})
	}()
	select {
	case <-paused:
	case err := <-oldDone:
		t.Fatalf("the paused write ended before it was paused: %v", err)
	}
	go func() { newDone <- subject.Write(ctx, name, 6, "new") }()

	// The new write may pass at once, and then the old one must fail; or it waits for the old one, and then that one
	// must take effect first. Nothing tells that it waits, so give it time to go wrong.
	var newErr error
	patience := time.NewTimer(300 * time.Millisecond)
	defer patience.Stop()
	select {
	case newErr = <-newDone:
		close(resume)
	case <-patience.C:
		close(resume)
		newErr = <-newDone
	}
	oldErr := <-oldDone
	if newErr != nil && !errors.Is(newErr, fence.ErrConflict) {
		t.Fatalf("the new holder's write: %v", newErr)
	}
	values, err := subject.Values(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("old: %v; new: %v; values: %q", oldErr, newErr, values)
	want := []string{"before"}
	if oldErr == nil {
		want = append(want, "old")
	}
	if newErr == nil {
		want = append(want, "new")
	}
	if !slices.Equal(values, want) {
		t.Fatalf("old write ended with %v, new one with %v: %q hold, want %q", oldErr, newErr, values, want)
	}
	must(t, subject, name, 6, "after")
	mustBeStale(t, subject.Write(t.Context(), name, 5, "late"), name, 5, 6)
}

func (s suite) testMarkSurvivesRestart(t *testing.T) {
	subject := s.open(t)
	if subject.Restart == nil {
		t.Log("nothing to restart: the marks live and die with the data in this process")
		return
	}
	name := t.Name()
	must(t, subject, name, 10, "before")
	if err := subject.Restart(t.Context()); err != nil {
		t.Fatalf("restart: %v", err)
	}
	// The first request after a restart may fail on a connection that died.
	deadline := time.Now().Add(time.Minute)
	for {
		err := subject.Write(t.Context(), name, 9, "late")
		if errors.Is(err, leasehold.ErrStaleToken) {
			mustBeStale(t, err, name, 9, 10)
			break
		}
		if err == nil || time.Now().After(deadline) {
			t.Fatalf("write with an old token after the restart: %v", err)
		}
	}
	must(t, subject, name, 10, "after")
	mustHold(t, subject, name, "before", "after")
}
