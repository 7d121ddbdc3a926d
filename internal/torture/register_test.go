// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
)

// serving serves registers until the test ends, and dials them for the given slots.
func serving(t *testing.T, r *registers, slots ...int) []*registerClient {
	t.Helper()
	path := filepath.Join(t.TempDir(), "register")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { r.serve(ctx, listener) })
	t.Cleanup(all.Wait)
	t.Cleanup(stop)
	var clients []*registerClient
	for _, slot := range slots {
		c, err := dialRegister(path, slot)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.conn.Close() })
		clients = append(clients, c)
	}
	return clients
}

func asked(t *testing.T, c *registerClient, q request) answer {
	t.Helper()
	a, err := c.ask(q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRegisters_RefuseWhatIsStaleAndNothingElse(t *testing.T) {
	r := newRegisters()
	c := serving(t, r, 0)[0]
	for _, step := range []struct {
		q    request
		want answer
	}{
		{request{Name: "n0", Token: 5, Value: "a"}, answer{OK: true, Highest: 5}},
		{request{Name: "n0", Token: 5, Value: "b"}, answer{OK: true, Highest: 5, Value: "a"}},
		{request{Name: "n0", Token: 4, Value: "c"}, answer{Highest: 5, Value: "b"}},
		{request{Name: "n1", Token: 4, Value: "d"}, answer{OK: true, Highest: 4}},
		{request{Name: "n0", Token: 4, Read: true}, answer{OK: true, Value: "b"}},
	} {
		if a := asked(t, c, step.q); a != step.want {
			t.Errorf("%+v: %+v, want %+v", step.q, a, step.want)
		}
	}
	if len(r.applied) != 3 {
		t.Errorf("accepted %+v", r.applied)
	}
}

// The deed that shows what fencing is for: the worker is stopped when it has checked, and before it has written.
func TestRegisters_CatchAWorkerBetweenItsCheckAndItsWrite(t *testing.T) {
	r := newRegisters()
	clients := serving(t, r, 0, 1)
	caught := 0
	sprung := r.atIntent(0, func() bool { caught++; return true })
	asked(t, clients[1], request{Intent: true})
	asked(t, clients[0], request{Name: "n0", Token: 1, Read: true})
	select {
	case <-sprung:
		t.Error("another worker, or one that only reads, was caught")
	default:
	}
	asked(t, clients[0], request{Intent: true})
	<-sprung // closed before the answer was sent
	asked(t, clients[0], request{Intent: true})
	if caught != 1 {
		t.Errorf("caught %d times", caught)
	}
	asked(t, clients[1], request{Name: "n0", Token: 2, Value: "newer"})
	if a := asked(t, clients[0], request{Name: "n0", Token: 1, Value: "late"}); a.OK || a.Highest != 2 {
		t.Errorf("the late write: %+v", a)
	}
	r.atIntent(0, func() bool { caught++; return true })
	r.atIntent(0, nil)
	asked(t, clients[0], request{Intent: true})
	if caught != 1 {
		t.Error("caught after that was taken back")
	}
}
