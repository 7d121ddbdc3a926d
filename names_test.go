// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/leasehold"
)

// Names that look alike, contain each other or contain what separates them are strangers: all can be held at once, and
// each excludes itself.
func TestNames_LookalikesAreStrangers(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	names := []string{
		"a", "a/", "/a", "a/b", "a//b", "a/b/", "/", "//", "a\x00", "a\x00b", "\x00", "a ", " a", "A",
		"a%2Fb", "a%2fb", "a%b", "%", "%2F", "%252F", "a\n", "a\x7f", "ä", "a\u0308", "日本", "🔒", ".", "..", "*", "a?b", "a\\b",
		strings.Repeat("a", 1024), strings.Repeat("a", 1023), strings.Repeat("/", 1024),
	}
	keys := make(map[string]string)
	var grants []*leasehold.Grant
	for _, name := range names {
		g, err := s.TryLock(within(t), name)
		if err != nil {
			t.Fatalf("%q is not free: %v", name, err)
		}
		if g.Name() != name {
			t.Errorf("the grant of %q is called %q", name, g.Name())
		}
		if same, ok := keys[g.Key()]; ok {
			t.Errorf("%q and %q share the key %q", name, same, g.Key())
		}
		keys[g.Key()] = name
		if rest := strings.TrimPrefix(g.Key(), sc.prefix); strings.Count(rest, "/") != 1 || strings.ContainsAny(rest, "\x00\n\x7f") {
			t.Errorf("the key of %q is %q", name, g.Key())
		}
		grants = append(grants, g)
	}
	for i, name := range names {
		_, err := s.TryLock(within(t), name)
		wantErr(t, fmt.Sprintf("%q a second time", name), err, leasehold.ErrLocked)
		mustRelease(t, grants[i])
		mustRelease(t, mustLock(t, s, name))
	}
}

func TestNames_PlainOnesLookInEtcdAsTheyWereGiven(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	s := sc.newSession(time.Minute)
	for _, name := range []string{"nightly", "with space", "größe", "日本", "a.b-c_d:e"} {
		g := mustLock(t, s, name)
		if !strings.HasPrefix(g.Key(), sc.prefix+name+"/") {
			t.Errorf("the key of %q is %q", name, g.Key())
		}
		mustRelease(t, g)
	}
}

// Names that cannot be kept apart or read by anybody are refused, by every call, before anything is sent.
func TestNames_WhatCannotBeANameIsRefused(t *testing.T) {
	t.Parallel()
	sc := solo.scene(t)
	probe := newProbe()
	cl := probe.client(sc)
	s, pool := sc.session(cl, time.Minute), sc.pool(cl, time.Minute)
	mustRelease(t, mustLock(t, s, "a"))
	before := probe.called()[txnMethod]
	for what, name := range map[string]string{
		"empty": "", "a byte too long": strings.Repeat("a", 1025), "a megabyte": strings.Repeat("a", 1<<20),
		"invalid UTF-8": "a\xff", "half a letter": "日"[:2], "a surrogate": "\xed\xa0\x80",
	} {
		for call, err := range map[string]error{
			"Session.Lock":    second(s.Lock(within(t), name)),
			"Session.TryLock": second(s.TryLock(within(t), name)),
			"Session.Do":      s.Do(within(t), name, nothing),
			"Client.Lock":     second(pool.Lock(within(t), name)),
			"Client.TryLock":  second(pool.TryLock(within(t), name)),
			"Client.Do":       pool.Do(within(t), name, nothing),
		} {
			wantErr(t, call+" of "+what, err, leasehold.ErrInvalidName)
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("%s of %s: an error of %d bytes", call, what, len(err.Error()))
			}
		}
	}
	if after := probe.called()[txnMethod]; after != before {
		t.Errorf("%d transactions were sent", after-before)
	}
}

func second[T any](_ T, err error) error { return err }

func nothing(context.Context, *leasehold.Grant) error { return nil }
