// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/objectfence"
)

func newFence(t *testing.T, store objectfence.Store, config objectfence.Config) *objectfence.Fence {
	t.Helper()
	f, err := objectfence.New(store, config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFence_Conformance(t *testing.T) {
	for name, generations := range map[string]bool{"hashes": false, "generations": true} {
		t.Run(name, func(t *testing.T) {
			f := newFence(t, newMemory(generations), objectfence.Config{})
			// An update that finds another write in between runs its function again; the suite pauses the first run only.
			update := func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
				return f.Update(ctx, resource, token, func(old []byte) ([]byte, error) {
					pause()
					return append(bytes.Clone(old), value+"\x00"...), nil
				})
			}
			fencetest.Run(t, func(*testing.T) fencetest.Subject {
				return fencetest.Subject{
					Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
						return update(ctx, resource, token, value, func() {})
					},
					WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
						return update(ctx, resource, token, value, sync.OnceFunc(pause))
					},
					Values: func(ctx context.Context, resource string) ([]string, error) {
						content, _, err := f.Read(ctx, resource)
						if errors.Is(err, objectfence.ErrNotExist) {
							return nil, nil
						}
						return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00"), err
					},
				}
			}, fencetest.Options{Resources: 40})
		})
	}
}

// The hazard that the first line of an object is there for: equal contents have equal ETags.
func TestFence_OldHolderDoesNotReplaceTheSameContentOfItsSuccessor(t *testing.T) {
	store := newMemory(false)
	f := newFence(t, store, objectfence.Config{})
	if err := f.Write(t.Context(), "r", 5, []byte("idle")); err != nil {
		t.Fatal(err)
	}
	// Between the old holder's look and its write, the successor writes what is there already.
	store.before = func() {
		store.before = nil
		if err := f.Write(t.Context(), "r", 7, []byte("idle")); err != nil {
			t.Error(err)
		}
	}
	err := f.Write(t.Context(), "r", 5, []byte("late"))
	var stale *leasehold.StaleTokenError
	if !errors.As(err, &stale) || stale.Highest != 7 {
		t.Fatalf("the old holder's write: got %v, want a refusal that names 7", err)
	}
	if content, token, err := f.Read(t.Context(), "r"); err != nil || token != 7 || string(content) != "idle" {
		t.Fatalf("read %q with token %d, %v; want the successor's", content, token, err)
	}
}

func TestFence_AdoptsAnObjectThatWasWrittenWithoutIt(t *testing.T) {
	store := newMemory(false)
	f := newFence(t, store, objectfence.Config{})
	store.put("r", []byte("one\ntwo"), nil)
	if content, token, err := f.Read(t.Context(), "r"); err != nil || token != 0 || string(content) != "one\ntwo" {
		t.Fatalf("read %q with token %d, %v; want the object as it is", content, token, err)
	}
	err := f.Update(t.Context(), "r", 5, func(old []byte) ([]byte, error) { return append(old, "\nthree"...), nil })
	if err != nil {
		t.Fatal(err)
	}
	if content, token, err := f.Read(t.Context(), "r"); err != nil || token != 5 || string(content) != "one\ntwo\nthree" {
		t.Fatalf("read %q with token %d, %v", content, token, err)
	}
}

func TestFence_GivesUpWhenOthersAlwaysWriteInBetween(t *testing.T) {
	store := newMemory(true)
	f := newFence(t, store, objectfence.Config{Attempts: 3})
	tries := 0
	store.before = func() {
		tries++
		store.mu.Lock()
		defer store.mu.Unlock()
		store.put("r", []byte("other"), nil)
	}
	if err := f.Write(t.Context(), "r", 5, []byte("mine")); !errors.Is(err, fence.ErrConflict) {
		t.Fatalf("got %v, want fence.ErrConflict", err)
	}
	if tries != 3 {
		t.Fatalf("tried %d times, want 3", tries)
	}
}

func TestFence_SaysWhatIsWrong(t *testing.T) {
	store := newMemory(false)
	f := newFence(t, store, objectfence.Config{})
	if err := f.WriteGrant(t.Context(), "r", nil); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("without a grant: got %v, want fence.ErrNoGrant", err)
	}
	errMine := errors.New("mine")
	if err := f.Update(t.Context(), "r", 5, func([]byte) ([]byte, error) { return nil, errMine }); !errors.Is(err, errMine) {
		t.Errorf("the caller's own error: got %v", err)
	}
	if _, _, err := f.Read(t.Context(), "r"); !errors.Is(err, objectfence.ErrNotExist) {
		t.Errorf("no object: got %v, want objectfence.ErrNotExist", err)
	}
	store.put("r", nil, map[string]string{objectfence.TokenKey: "007"})
	if err := f.Write(t.Context(), "r", 5, nil); !errors.Is(err, objectfence.ErrCorruptMark) || errors.Is(err, leasehold.ErrStaleToken) {
		t.Errorf("corrupt mark: got %v, want objectfence.ErrCorruptMark", err)
	}
	if _, err := objectfence.New(nil, objectfence.Config{}); err == nil {
		t.Error("a fence without a store was made")
	}
	if _, err := objectfence.New(store, objectfence.Config{Attempts: -1}); err == nil {
		t.Error("a fence without attempts was made")
	}
}
