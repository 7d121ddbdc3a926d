// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// verdict is a test that is expected to fail: it keeps what it is told.
type verdict struct {
	testing.TB

	mu       sync.Mutex
	said     string
	failed   bool
	cleanups []func()
}

// judge runs f as a test, with its clean-ups.
func judge(t *testing.T, f func(testing.TB)) *verdict {
	t.Helper()
	v := &verdict{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { f(v) }) // Fatalf ends a goroutine
	wg.Wait()
	for i := len(v.cleanups) - 1; i >= 0; i-- {
		v.cleanups[i]()
	}
	return v
}

func (v *verdict) Helper()                  {}
func (v *verdict) Context() context.Context { return v.TB.Context() }
func (v *verdict) Cleanup(f func())         { v.cleanups = append(v.cleanups, f) }

func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed
}

func (v *verdict) Logf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.said += fmt.Sprintf(format, args...) + "\n"
}

func (v *verdict) Errorf(format string, args ...any) {
	v.Logf(format, args...)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = true
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

// failedWith checks that the test failed and said why.
func (v *verdict) failedWith(t *testing.T, words ...string) {
	t.Helper()
	if !v.Failed() {
		t.Error("the test passed")
	}
	for _, w := range words {
		if !strings.Contains(v.said, w) {
			t.Errorf("the test does not say %q: %s", w, v.said)
		}
	}
}

func (v *verdict) passed(t *testing.T) {
	t.Helper()
	if v.Failed() {
		t.Errorf("the test failed: %s", v.said)
	}
}

func TestEventually_WaitsAndSaysWhatItWaitedFor(t *testing.T) {
	judge(t, func(t testing.TB) {
		looks := 0
		leaseholdtest.Eventually(t, long, "third look", func() bool { looks++; return looks == 3 })
	}).passed(t)
	judge(t, func(t testing.TB) {
		leaseholdtest.Eventually(t, 20*time.Millisecond, "pigs fly", func() bool { return false })
		t.Errorf("the test went on")
	}).failedWith(t, "pigs fly", "20ms")
}

func TestNoGoroutines_TellsThoseStartedAfterwards(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	go func() { <-stop }() // before: not the test's
	judge(t, func(t testing.TB) {
		leaseholdtest.NoGoroutines(t)
		ended := make(chan struct{})
		go func() { <-ended }()
		t.Cleanup(func() { close(ended) }) // runs before the check
	}).passed(t)
	judge(t, func(t testing.TB) {
		leaseholdtest.NoGoroutines(t)
		go func() { <-stop }()
	}).failedWith(t, "goroutines are left", "TestNoGoroutines")
}

func TestNoKeys_ListsWhatIsThere(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	judge(t, func(t testing.TB) { c.NoKeys(t, "a/") }).passed(t)
	for i := range 12 {
		must(t, c.Overwrite(within(t, long), fmt.Sprintf("a/%02d", i), "value"))
	}
	judge(t, func(t testing.TB) { c.NoKeys(t, "a/") }).failedWith(t, `"a/00"`, `"a/09"`, "2 more")
	judge(t, func(t testing.TB) { c.NoKeys(t, "b/") }).passed(t)
}

func TestNoKeysWithin_WaitsForTheLastKeyToGo(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	judge(t, func(t testing.TB) { c.NoKeysWithin(t, long, "a/") }).passed(t)
	for _, key := range []string{"a/1", "a/2"} {
		must(t, c.Overwrite(within(t, long), key, "value"))
	}
	must(t, c.Delete(within(t, long), "a/1"))
	judge(t, func(t testing.TB) { c.NoKeysWithin(t, 300*time.Millisecond, "a/") }).failedWith(t, `"a/2"`, "300ms")
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := c.Overwrite(within(t, long), "a/3", "value"); err != nil {
			t.Error(err)
		}
		if _, err := c.DeletePrefix(within(t, long), "a/"); err != nil {
			t.Error(err)
		}
	})
	judge(t, func(t testing.TB) { c.NoKeysWithin(t, long, "a/") }).passed(t)
	wg.Wait()
}
