// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// A chronicle holds every start of work against those before: none of them may still have a live context, which compares the
// clock when it is asked, and the tokens rise.
type chronicle struct {
	t     testing.TB
	mu    sync.Mutex
	works []*work
}

// write makes the work of a replica enter itself.
func (c *chronicle) write(r *replica, ec *leasehold.ElectorConfig) {
	ec.OnStartedLeading = func(ctx context.Context, l *leasehold.Leadership) {
		c.enter(&work{ctx: ctx, l: l})
		r.work(ctx, l, nil)
	}
}

func (c *chronicle) enter(w *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, before := range c.works {
		if before.ctx.Err() == nil {
			c.t.Errorf("the work with token %v starts while the context of that with %v is alive", w.l.Token(), before.l.Token())
		}
		if before.l.Token() >= w.l.Token() {
			c.t.Errorf("token %v after %v", w.l.Token(), before.l.Token())
		}
	}
	c.works = append(c.works, w)
}

// leading returns the work whose context is alive, if there is one.
func (c *chronicle) leading() (alive *work) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.works {
		if w.ctx.Err() == nil {
			alive = w
		}
	}
	return alive
}

func TestElector_WorkReturnsBeforeTheSuccessorStarts(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	hang := make(chan struct{})
	a := startReplica(t, h.Client(t).Client, h.config(time.Minute), hanging(hang))
	w := a.leads()
	b := startReplica(t, h.Client(t).Client, h.config(time.Minute), nil)
	h.awaitLine("name", 2)
	a.stop()
	await(t, "the context ends", w.ctx.Done())
	if !w.l.Valid() || len(h.awaitLine("name", 2)) != 2 || len(b.works) > 0 {
		t.Errorf("valid %v, %d successors while the work stops", w.l.Valid(), len(b.works))
	}
	hung := time.Now() // still
	close(hang)
	next := b.leads()
	if next.began.Before(hung) || next.l.Token() <= w.l.Token() {
		t.Errorf("the successor began %v before the work returned, token %v after %v", hung.Sub(next.began), next.l.Token(), w.l.Token())
	}
	a.shutDown()
	if token := await(t, "OnStoppedLeading", a.stops); token != w.l.Token() {
		t.Errorf("stopped %v, want %v", token, w.l.Token())
	}
}

// Exactly one leads after etcd was down for half a term, one and a half, and five; and never two.
func TestElector_OneLeaderAfterEtcdWasDown(t *testing.T) {
	t.Parallel()
	const term = 2 * time.Second
	for _, down := range []time.Duration{term / 2, term * 3 / 2, term * 5} {
		t.Run(down.String(), func(t *testing.T) {
			t.Parallel()
			h := ownHall(t, leaseholdtest.Options{})
			c := &chronicle{t: t}
			var replicas []*replica
			for range 3 {
				replicas = append(replicas, startReplica(t, h.Client(t).Client, h.config(term), c.write))
			}
			leaseholdtest.Eventually(t, step, "somebody leads", func() bool { return c.leading() != nil })
			h.awaitLine("name", 3)
			before := c.leading()
			if err := h.StopAll(within(h.t)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(down)
			if down > term && c.leading() != nil {
				t.Errorf("somebody leads after etcd was down for %v", down)
			}
			if err := h.RestartAll(within(h.t)); err != nil {
				t.Fatal(err)
			}
			leaseholdtest.Eventually(t, step, "somebody leads again", func() bool { return c.leading() != nil })
			time.Sleep(2 * term)
			leaseholdtest.Eventually(t, step, "exactly one leads, and all say that they are well", func() bool {
				leaders := 0
				for _, r := range replicas {
					if r.IsLeader() {
						leaders++
					}
					if r.Err() != nil {
						return false
					}
				}
				return leaders == 1
			})
			if down < term && c.leading() != before {
				t.Logf("the leader has changed after %v", down) // the restart takes its time, too
			}
			h.awaitLine("name", 3)
		})
	}
}

// etcd's own change of leader is none of ours.
func TestElector_AnotherLeaderOfEtcdChangesNothing(t *testing.T) {
	t.Parallel()
	h := ownHall(t, leaseholdtest.Options{Members: 3})
	c := &chronicle{t: t}
	for range 3 {
		startReplica(t, h.Client(t).Client, h.config(30*time.Second), c.write)
	}
	leaseholdtest.Eventually(t, step, "somebody leads", func() bool { return c.leading() != nil })
	before := c.leading()
	for range 2 {
		m, err := h.WaitLeader(within(h.t))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Kill(within(h.t)); err != nil {
			t.Fatal(err)
		}
		if _, err := h.WaitLeader(within(h.t)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if err := m.Restart(within(h.t)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(10 * time.Second)
	if c.leading() != before {
		t.Errorf("our leader has changed: %v", context.Cause(before.ctx))
	}
}

// Without a quorum for longer than the term, everybody is told, nobody leads, and the leases that the new leader of etcd
// arms again make nobody lead who was waiting before: the candidates are gone, not ghosts.
func TestElector_WithoutQuorumItSaysSoAndThenOneLeads(t *testing.T) {
	t.Parallel()
	h := ownHall(t, leaseholdtest.Options{Members: 3})
	const term = 2 * time.Second
	c := &chronicle{t: t}
	var replicas []*replica
	for range 3 {
		replicas = append(replicas, startReplica(t, h.Client(t).Client, h.config(term), c.write))
	}
	leaseholdtest.Eventually(t, step, "somebody leads", func() bool { return c.leading() != nil })
	before := h.awaitLine("name", 3)
	if err := h.LoseQuorum(within(h.t)); err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		leaseholdtest.Eventually(t, step, "it says that it cannot stand", func() bool { return r.Err() != nil })
	}
	if w := c.leading(); w != nil {
		t.Errorf("the work with token %v goes on without a quorum", w.l.Token())
	}
	if _, err := h.RegainQuorum(within(h.t)); err != nil {
		t.Fatal(err)
	}
	leaseholdtest.Eventually(t, step, "somebody leads again", func() bool { return c.leading() != nil })
	leaseholdtest.Eventually(t, step, "the keys of before are gone", func() bool {
		keys, err := h.Keys(within(h.t), h.prefix+"name/")
		return err == nil && len(keys) == 3 && !strings.Contains(strings.Join(keys, " "), before[0])
	})
}

type strangePanic struct{ at string }

func TestElector_APanicGoesOnWhenTheLeadershipIsGivenBack(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	pool, err := leasehold.New(h.Client(t).Client, h.config(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close(within(h.t)) }()
	stopped := 0
	e, err := leasehold.NewElector(pool, leasehold.ElectorConfig{
		Name:             "name",
		OnStartedLeading: func(context.Context, *leasehold.Leadership) { panic(strangePanic{"work"}) },
		OnStoppedLeading: func() { stopped++ },
		OnNewLeader:      func(leasehold.Leader) { <-t.Context().Done() }, // holds up no panic
	})
	if err != nil {
		t.Fatal(err)
	}
	recovered := make(chan any)
	go func() {
		defer func() { recovered <- recover() }()
		t.Errorf("Run has returned %v", e.Run(t.Context()))
	}()
	if p := await(t, "Run panics", recovered); p != (strangePanic{"work"}) {
		t.Errorf("recovered %v", p)
	}
	if stopped != 1 {
		t.Errorf("OnStoppedLeading was called %d times", stopped)
	}
	h.awaitLine("name", 0)
}

func TestElector_SaysWhyItCannotStandAndStopsAtOnce(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T) (cli *clientv3.Client, want error){
		"no permission": func(t *testing.T) (*clientv3.Client, error) {
			c := leaseholdtest.Start(t, leaseholdtest.Options{})
			if err := c.EnableAuth(t.Context(), leaseholdtest.User{Name: "user", Password: "secret", Prefixes: []string{"elsewhere/"}}); err != nil {
				t.Fatal(err)
			}
			return c.ClientWith(t, leaseholdtest.ClientOptions{User: "user", Password: "secret"}).Client, nil
		},
		"nobody there": func(t *testing.T) (*clientv3.Client, error) {
			cli, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cli.Close() })
			return cli, context.DeadlineExceeded
		},
		"silence": func(t *testing.T) (*clientv3.Client, error) {
			cl := leaseholdtest.Start(t, leaseholdtest.Options{}).Client(t)
			cl.Blackhole(leaseholdtest.Both)
			return cl.Client, context.DeadlineExceeded
		},
		"another cluster": func(t *testing.T) (*clientv3.Client, error) {
			c := leaseholdtest.Start(t, leaseholdtest.Options{})
			cl := c.Client(t)
			for range 20 { // the new one needs long to come so far
				if _, err := cl.Put(t.Context(), "x", "y"); err != nil {
					t.Fatal(err)
				}
			}
			s, err := leasehold.NewSession(t.Context(), cl.Client, leasehold.Config{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Lock(t.Context(), "x"); err != nil { // tells the client how far the store has come
				t.Fatal(err)
			}
			if err := c.Replace(t.Context()); err != nil {
				t.Fatal(err)
			}
			return cl.Client, leasehold.ErrRolledBack
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cli, want := prepare(t)
			r := startReplica(t, cli, leasehold.Config{TTL: 2 * time.Second}, nil)
			leaseholdtest.Eventually(t, step, "it says why", func() bool { return r.Err() != nil && (want == nil || errors.Is(r.Err(), want)) })
			t.Log(r.Err())
			if r.IsLeader() || r.Check(nil) != nil {
				t.Errorf("leader %v, check %v", r.IsLeader(), r.Check(nil))
			}
			r.shutDown() // within a step; the bubbles say how soon
		})
	}
}

func TestElector_RunEndsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	for name, closes := range map[string]func(*leasehold.Client, *clientv3.Client) error{
		"the client":      func(c *leasehold.Client, _ *clientv3.Client) error { return c.Close(within(h.t)) },
		"the etcd client": func(_ *leasehold.Client, cli *clientv3.Client) error { return cli.Close() },
	} {
		cli := h.Client(t).Client
		pool, err := leasehold.New(cli, h.config(20*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		started, stopped := make(chan struct{}, 1), 0
		e, err := leasehold.NewElector(pool, leasehold.ElectorConfig{
			Name:             "name",
			OnStartedLeading: func(ctx context.Context, _ *leasehold.Leadership) { started <- struct{}{}; <-ctx.Done() },
			OnStoppedLeading: func() { stopped++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		ran := make(chan error, 1)
		go func() { ran <- e.Run(t.Context()) }()
		await(t, "it leads", started)
		if err := e.Run(t.Context()); !errors.Is(err, leasehold.ErrInvalidConfig) {
			t.Errorf("a second Run beside the first: %v", err)
		}
		if err := closes(pool, cli); err != nil {
			t.Errorf("close %s: %v", name, err)
		}
		if err := await(t, "Run returns", ran); !errors.Is(err, leasehold.ErrClosed) {
			t.Errorf("%s was closed, and Run returned %v", name, err)
		}
		if stopped != 1 {
			t.Errorf("OnStoppedLeading was called %d times", stopped)
		}
	}
}
