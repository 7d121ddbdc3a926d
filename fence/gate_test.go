// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"sync"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
)

// memory is a resource that lives in this process.
type memory struct {
	gate   fence.Gate
	mu     sync.Mutex
	values map[string][]string
}

func (m *memory) writePaused(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
	return fence.Do(ctx, &m.gate, resource, token, func(context.Context) error {
		pause()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.values[resource] = append(m.values[resource], value)
		return nil
	})
}

func (m *memory) subject() fencetest.Subject {
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return m.writePaused(ctx, resource, token, value, func() {})
		},
		WritePaused: m.writePaused,
		Values: func(_ context.Context, resource string) ([]string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			return m.values[resource], nil
		},
	}
}

func TestGate_Conformance(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		m := &memory{values: make(map[string][]string)}
		return m.subject()
	}, fencetest.Options{})
}

// fenceMarks is a mark store in memory.
type fenceMarks struct{ leasehold.Fence }

func (m *fenceMarks) Raise(_ context.Context, resource string, token leasehold.Token) error {
	return m.Check(resource, token)
}

func TestGate_ConformanceWithMarks(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		m := &memory{values: make(map[string][]string)}
		m.gate.Marks = &fenceMarks{}
		return m.subject()
	}, fencetest.Options{})
}

func BenchmarkGate(b *testing.B) {
	var gate fence.Gate
	for b.Loop() {
		admission, err := gate.Begin(b.Context(), "r", 5)
		if err != nil {
			b.Fatal(err)
		}
		admission.Discard()
	}
}
