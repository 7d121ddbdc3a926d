// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"example.com/leasehold"
)

// A check costs no memory, so that it can stand before every write. It runs alone, because it counts allocations.
func TestValid_DoesNotAllocate(t *testing.T) {
	sc := solo.scene(t)
	s := sc.newSession(4 * time.Minute)
	g := mustLock(t, s, "name")
	valid := true
	for what, check := range map[string]func(){
		"Grant.Valid":       func() { valid = valid && g.Valid() },
		"Grant.Remaining":   func() { valid = valid && g.Remaining() > 0 },
		"Session.Valid":     func() { valid = valid && s.Valid() },
		"Session.Remaining": func() { valid = valid && s.Remaining() > 0 },
	} {
		if n := allocations(check); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	if !valid {
		t.Error("the grant was lost meanwhile")
	}
	mustRelease(t, g)
	if n := allocations(func() { valid = g.Valid() }); n != 0 {
		t.Errorf("Grant.Valid after the release: %v allocations", n)
	}
}

// allocations is how often f allocates. Those of the whole process are counted, so that whoever is scheduled meanwhile adds to it,
// but not every time.
func allocations(f func()) (least float64) {
	for i := range 10 {
		if n := testing.AllocsPerRun(100, f); i == 0 || n < least {
			least = n
		}
	}
	return least
}

func BenchmarkGrant_Valid(b *testing.B) {
	sc := solo.scene(b)
	g := mustLock(b, sc.newSession(4*time.Minute), "name")
	b.ReportAllocs()
	for b.Loop() {
		if !g.Valid() {
			b.Fatal(g.Err())
		}
	}
}

func BenchmarkGrant_ValidInParallel(b *testing.B) {
	sc := solo.scene(b)
	g := mustLock(b, sc.newSession(4*time.Minute), "name")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !g.Valid() {
				b.Error(g.Err())
				return
			}
		}
	})
}

// One uncontended acquire and release: a round trip each, to an etcd in this process.
func BenchmarkSession_LockAndRelease(b *testing.B) {
	sc := solo.scene(b)
	s := sc.newSession(4 * time.Minute)
	b.ReportAllocs()
	for b.Loop() {
		g, err := s.Lock(b.Context(), "name")
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// A name that goes from hand to hand between the goroutines of one session.
func BenchmarkSession_HandOver(b *testing.B) {
	sc := solo.scene(b)
	s := sc.newSession(4 * time.Minute)
	b.SetParallelism(4)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Do(b.Context(), "name", nothing); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// What a held lock costs this process: bytes on the heap and goroutines, the server's apart. The grants are older than a
// second, so that they are watched.
func BenchmarkClient_HeldLocks(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sc := solo.scene(b)
			for b.Loop() {
				c, err := leasehold.New(sc.Client(b).Client, sc.config(time.Minute))
				if err != nil {
					b.Fatal(err)
				}
				first := mustLock(b, c, "first")
				goroutines := runtime.NumGoroutine()
				heap := liveHeap()
				begin := time.Now()
				grants := lockMany(b, c, n)
				b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "locks/s")
				time.Sleep(2 * time.Second) // the youngest become old enough
				// The server's copy of the keys lives in the same process; what of the difference is ours is at most this.
				b.ReportMetric(float64(liveHeap()-heap)/float64(n), "B/grant")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
				runtime.KeepAlive(grants)
				mustRelease(b, first)
				ctx, cancel := context.WithTimeout(b.Context(), step)
				if err := c.Close(ctx); err != nil {
					b.Error(err)
				}
				cancel()
			}
		})
	}
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
