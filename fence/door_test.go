// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// begin begins a write that must be admitted.
func begin(t *testing.T, g *fence.Gate, token leasehold.Token) fence.Admission {
	t.Helper()
	admission, err := g.Begin(t.Context(), "r", token)
	if err != nil {
		t.Fatalf("token %d: %v", token, err)
	}
	return admission
}

func TestGate_HigherTokenWaitsAndLowerOnesAreRefusedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fence.Gate
		first, second := begin(t, &gate, 5), begin(t, &gate, 5)
		admitted := make(chan fence.Admission)
		go func() { admitted <- begin(t, &gate, 7) }()
		synctest.Wait()
		select {
		case <-admitted:
			t.Fatal("the higher token did not wait")
		default:
		}
		// It has been seen: nobody with a lower one gets in before it, so it cannot be starved.
		var stale *leasehold.StaleTokenError
		if _, err := gate.Begin(t.Context(), "r", 5); !errors.As(err, &stale) || stale.Highest != 7 {
			t.Fatalf("a lower token meanwhile: got %v, want a refusal by 7", err)
		}
		first.Discard()
		synctest.Wait()
		select {
		case <-admitted:
			t.Fatal("the higher token did not wait for all")
		default:
		}
		if err := second.Commit(); err != nil {
			t.Fatal(err)
		}
		last := <-admitted
		first.Discard() // a second end of the same admission ends nobody else's
		if _, err := gate.Begin(canceled(t), "r", 8); !errors.Is(err, context.Canceled) {
			t.Fatalf("while 7 is inside: got %v, want context.Canceled", err)
		}
		last.Discard()
	})
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestGate_WaiterThatIsOvertakenIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fence.Gate
		inside := begin(t, &gate, 5)
		overtaken, admitted := make(chan error, 1), make(chan fence.Admission, 1)
		go func() {
			_, err := gate.Begin(t.Context(), "r", 6)
			overtaken <- err
		}()
		synctest.Wait()
		go func() { admitted <- begin(t, &gate, 7) }()
		synctest.Wait()
		inside.Discard()
		(<-admitted).Discard()
		if err := <-overtaken; !errors.Is(err, leasehold.ErrStaleToken) {
			t.Fatalf("got %v, want leasehold.ErrStaleToken", err)
		}
	})
}

func TestGate_SaysWhyAWaitEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fence.Gate
		defer begin(t, &gate, 5).Discard()
		reason := errors.New("reason")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(reason)
		if _, err := gate.Begin(ctx, "r", 6); !errors.Is(err, context.Canceled) || !errors.Is(err, reason) {
			t.Fatalf("got %v, want context.Canceled and its cause", err)
		}
	})
}

func TestGate_StoreThatRefusesLeavesTheGateOpen(t *testing.T) {
	marks := &fenceMarks{}
	gate := &fence.Gate{Marks: marks}
	if err := marks.Check("r", 9); err != nil { // another process has been here
		t.Fatal(err)
	}
	var stale *leasehold.StaleTokenError
	if _, err := gate.Begin(t.Context(), "r", 5); !errors.As(err, &stale) || stale.Highest != 9 {
		t.Fatalf("got %v, want a refusal by 9", err)
	}
	begin(t, gate, 9).Discard()
}

func TestDo_DiscardsOnErrorAndPanic(t *testing.T) {
	var gate fence.Gate
	errMine := errors.New("mine")
	if err := fence.Do(t.Context(), &gate, "r", 5, func(context.Context) error { return errMine }); !errors.Is(err, errMine) {
		t.Fatalf("got %v, want the error of the write", err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = fence.Do(t.Context(), &gate, "r", 5, func(context.Context) error { panic("in the write") })
	}()
	begin(t, &gate, 6).Discard() // would wait for ever if one of them were still inside
	called := false
	err := fence.Do(t.Context(), &gate, "r", 5, func(context.Context) error { called = true; return nil })
	if !errors.Is(err, leasehold.ErrStaleToken) || called {
		t.Fatalf("got %v, write called: %v; want a refusal before the write", err, called)
	}
}
