// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold"
	"example.com/leasehold/internal/etcdfake"
	"example.com/leasehold/leaseholdtest"
)

// A witness follows an election in the background and checks that no state is older than the one before it.
type witness struct {
	t      testing.TB
	name   string
	states chan leasehold.Leader // the first 65,536 states
	seen   atomic.Int64          // how many there were
	last   chan leasehold.Leader // holds the latest one
	ended  chan error
}

// observe follows the election "name" until ctx ends.
func observe(ctx context.Context, t testing.TB, name string, cli *clientv3.Client, cfg leasehold.Config) *witness {
	t.Helper()
	c, err := leasehold.New(cli, cfg)
	if err != nil {
		t.Fatal(err)
	}
	o := &witness{
		t: t, name: name, states: make(chan leasehold.Leader, 1<<16), last: make(chan leasehold.Leader, 1), ended: make(chan error, 1),
	}
	go o.run(ctx, c.Election("name"))
	return o
}

func (o *witness) run(ctx context.Context, e *leasehold.Election) {
	var highest leasehold.Leader // that ever led
	var failed error
	for l, err := range e.Observe(ctx) {
		if failed != nil {
			o.t.Errorf("%s: %+v, %v after the error %v, which should be the last", o.name, l, err, failed)
		}
		if err != nil {
			failed = err
			continue
		}
		if l.Token != 0 {
			if l.Token < highest.Token || l.Token == highest.Token && l.Revision < highest.Revision {
				o.t.Errorf("%s: %+v after %+v", o.name, l, highest)
			}
			highest = l
		}
		o.seen.Add(1)
		select {
		case o.states <- l:
		default: // on a machine where leaders come and go faster than anybody thought
		}
		select {
		case <-o.last:
		default:
		}
		o.last <- l
	}
	o.ended <- failed
}

// settles waits until the observer's latest state has this value.
func (o *witness) settles(value string) {
	o.t.Helper()
	leaseholdtest.Eventually(o.t, step, fmt.Sprintf("%s: the last state is %q", o.name, value), func() bool {
		select {
		case l := <-o.last:
			if l.Value == value {
				return true
			}
			select {
			case o.last <- l: // unless there is a later one already
			default:
			}
		default:
		}
		return false
	})
}

func TestObserve_PresentStateAtOnceThenEveryChange(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := observe(ctx, t, "observer", h.Client(t).Client, h.config(0))
	next := func(value string, token leasehold.Token) {
		t.Helper()
		l := await(t, "the next state", o.states)
		if l.Value != value || token != 0 && l.Token != token || (value == "") != (l == leasehold.Leader{}) {
			t.Errorf("observed %+v, want %q with token %v", l, value, token)
		}
	}
	next("", 0)
	s, _ := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "a")
	next("a", l.Token())
	if err := l.Proclaim(within(h.t), "b"); err != nil {
		t.Fatal(err)
	}
	next("b", l.Token())
	waiting := h.campaignAside(t.Context(), s.Election("name"), "c") // changes nothing
	h.awaitLine("name", 2)
	late := observe(ctx, t, "late", h.Client(t).Client, h.config(0))
	if first := await(t, "the present state", late.states); first.Value != "b" {
		t.Errorf("the late observer begins with %+v", first)
	}
	if err := l.Resign(within(h.t)); err != nil {
		t.Fatal(err)
	}
	c := await(t, "c leads", waiting)
	if c.err != nil {
		t.Fatal(c.err)
	}
	next("c", c.l.Token())
	if err := s.Close(within(h.t)); err != nil {
		t.Fatal(err)
	}
	next("", 0)
	cancel()
	for _, o := range []*witness{o, late} {
		if err := await(t, "Observe ends", o.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended with %v", o.name, err)
		}
	}
}

func TestObserve_EndsWithItsLoopAndWithWhatWaitingDoesNotHelp(t *testing.T) {
	t.Parallel()
	h := newHall(t)
	cl := h.Client(t)
	c, err := leasehold.New(cl.Client, leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range c.Election("name").Observe(t.Context()) {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d turns of a loop that breaks", n)
	}
	only := func(e *leasehold.Election, want error) {
		t.Helper()
		var errs []error
		for _, err := range e.Observe(t.Context()) {
			errs = append(errs, err)
		}
		if len(errs) != 1 || !errors.Is(errs[0], want) {
			t.Errorf("observed %v, want only %v", errs, want)
		}
	}
	only(c.Election(""), leasehold.ErrInvalidName)
	if err := cl.Client.Close(); err != nil {
		t.Fatal(err)
	}
	only(c.Election("name"), leasehold.ErrClosed)
}

// A member that has fallen behind with a watch sends what it missed in portions of a thousand revisions, each under the
// revision to which they lead all together. None of them may be taken for the last.
func TestObserve_ALongBacklogIsSeenToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		s, err := leasehold.NewSession(t.Context(), c.Client(t), leasehold.Config{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Election("name").Campaign(t.Context(), "0")
		if err != nil {
			t.Fatal(err)
		}
		watched := c.Client(t)
		host := c.HostOf(watched).Name()
		c.Hook(etcdfake.On("Watch/Watch", func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
			if call.Host == host && call.Request.(*pb.WatchRequest).GetCreateRequest() != nil {
				return etcdfake.Delay(500*time.Millisecond)(ctx, call, next)
			}
			return next(ctx)
		}))
		ctx, cancel := context.WithCancel(t.Context())
		o := observe(ctx, t, "observer", watched, leasehold.Config{})
		if l := <-o.states; l.Value != "0" {
			t.Fatalf("begins with %+v", l)
		}
		for i := range 1100 {
			if err := l.Proclaim(t.Context(), fmt.Sprint(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(1500 * time.Millisecond) // less than until the line is read again
		synctest.Wait()
		if l := <-o.last; l.Value != "1100" {
			t.Errorf("the last state is %+v", l)
		}
		cancel()
		<-o.ended
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Several observers share a client, and logins live for a second.
func TestObserve_OutlivesItsLogin(t *testing.T) {
	t.Parallel()
	h := ownHall(t, leaseholdtest.Options{AuthTokenTTL: time.Second})
	if err := h.EnableAuth(within(h.t), leaseholdtest.User{Name: "user", Password: "secret", Prefixes: []string{h.prefix}}); err != nil {
		t.Fatal(err)
	}
	login := leaseholdtest.ClientOptions{User: "user", Password: "secret"}
	s, err := leasehold.NewSession(within(h.t), h.ClientWith(t, login).Client, h.config(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	l := h.campaign(s.Election("name"), "0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watched := h.ClientWith(t, login)
	observers := []*witness{observe(ctx, t, "early", watched.Client, h.config(0))}
	for i := 1; i <= 3; i++ {
		time.Sleep(2500 * time.Millisecond) // a login that nobody uses is over by now
		observers = append(observers, observe(ctx, t, fmt.Sprint("late ", i), watched.Client, h.config(0)))
		if err := l.Proclaim(within(h.t), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		for _, o := range observers {
			o.settles(fmt.Sprint(i))
		}
	}
	// All of them watch: who only reads from time to time sees a change after two seconds at the earliest, most of the time.
	const changes, polled = 20, 2 * time.Second
	began := time.Now()
	for i := range changes {
		if err := l.Proclaim(within(h.t), fmt.Sprint("quick ", i)); err != nil {
			t.Fatal(err)
		}
		for _, o := range observers {
			o.settles(fmt.Sprint("quick ", i))
		}
	}
	if took := time.Since(began); took > changes*polled {
		t.Errorf("%d changes took %v to be seen by all: a watch does not work", changes, took)
	}
	cancel()
	for _, o := range observers {
		if err := await(t, "Observe ends", o.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended with %v", o.name, err)
		}
	}
	if err := s.Close(within(h.t)); err != nil {
		t.Error(err)
	}
}

// Observers of a cluster whose leader is stopped, whose history is compacted and whose paths are cut, while leaders come
// and go: what each has seen is in order, and in the end it is what is.
func TestObserve_IsInOrderAndRightInTheEndWhateverHappens(t *testing.T) {
	t.Parallel()
	h := ownHall(t, leaseholdtest.Options{Members: 3})
	seed := leaseholdtest.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients []*leaseholdtest.Client
	var observers []*witness
	for i := range 6 {
		if i%2 == 0 {
			clients = append(clients, h.Client(t)) // two observers share it
		}
		observers = append(observers, observe(ctx, t, fmt.Sprint("observer ", i), clients[len(clients)-1].Client, h.config(0)))
	}
	// Leaders, past the faults of links.
	direct := h.DirectClient(t)
	stop := make(chan struct{})
	var leaders sync.WaitGroup
	for i := range 2 {
		leaders.Go(func() {
			pool, err := leasehold.New(direct, h.config(time.Second))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = pool.Close(within(h.t)) }()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				actx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if l, err := pool.Election("name").Campaign(actx, fmt.Sprint(i, ".", n)); err == nil {
					_ = l.Proclaim(actx, fmt.Sprint(i, ".", n, " again"))
					_ = l.Resign(actx)
				}
				cancel()
			}
		})
	}
	began := time.Now()
	for round := 0; time.Since(began) < 12*time.Second; round++ {
		c := clients[rng.IntN(len(clients))]
		if _, err := h.Compact(within(h.t)); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Log("compact:", err)
		}
		switch round % 4 {
		case 0:
			leader, err := h.WaitLeader(within(h.t))
			if err != nil {
				t.Fatal(err)
			}
			if err := leader.Kill(within(h.t)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := leader.Restart(within(h.t)); err != nil {
				t.Fatal(err)
			}
		case 1:
			c.Link(h.Member(rng.IntN(3))).Blackhole(leaseholdtest.Both)
			time.Sleep(time.Second)
			c.Heal()
		case 2:
			c.Reset()
		case 3:
			old, err := h.IsolateLeader(within(h.t))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			h.Rejoin(old)
		}
	}
	close(stop)
	leaders.Wait()
	if err := h.HealAll(within(h.t)); err != nil {
		t.Fatal(err)
	}
	s, _ := h.standing(time.Minute)
	l := h.campaign(s.Election("name"), "the last")
	for _, o := range observers {
		o.settles("the last")
	}
	if err := l.Resign(within(h.t)); err != nil {
		t.Fatal(err)
	}
	seen := int64(0)
	for _, o := range observers {
		o.settles("")
		seen += o.seen.Load()
	}
	t.Logf("seed %d: %d states seen by %d observers", seed, seen, len(observers))
	cancel()
	for _, o := range observers {
		if err := await(t, "Observe ends", o.ended); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: ended with %v", o.name, err)
		}
	}
}
