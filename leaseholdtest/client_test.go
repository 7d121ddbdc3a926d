// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"example.com/leasehold/leaseholdtest"
)

func TestClient_FaultsConcernOneClientAndOneMember(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	faulty, healthy, direct := c.Client(t), c.Client(t), c.DirectClient(t)
	only := c.Member(1)
	faulty.Link(only).Blackhole(leaseholdtest.Both)
	ask := func(cl *clientv3.Client, endpoint string) <-chan error {
		done := make(chan error, 1)
		ctx := within(t, long)
		go func() {
			_, err := cl.Status(ctx, endpoint)
			done <- err
		}()
		return done
	}
	silent := ask(faulty.Client, faulty.Endpoint(only))
	must(t, <-ask(faulty.Client, faulty.Endpoint(c.Member(0))))
	must(t, <-ask(faulty.Client, faulty.Endpoint(c.Member(2))))
	must(t, <-ask(healthy.Client, healthy.Endpoint(only)))
	must(t, <-ask(direct, only.Endpoint()))
	pending(t, silent, "a question to a member behind a black hole")
	faulty.Heal()
	must(t, <-silent)
}

func TestClient_ConnectsToTheChosenMembersOnly(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{Members: 3})
	cl := c.ClientWith(t, leaseholdtest.ClientOptions{Members: c.Members()[2:]})
	if n := len(cl.Endpoints()); n != 1 || len(cl.Links()) != 1 {
		t.Errorf("%d endpoints and %d links, want one", n, len(cl.Links()))
	}
	stranger := leaseholdtest.Start(t, leaseholdtest.Options{}).Member(0)
	for _, m := range []*leaseholdtest.Member{c.Member(0), c.Member(3), stranger, nil} {
		if cl.Link(m) != nil || cl.Endpoint(m) != "" {
			t.Errorf("a link to %v, which the client does not know", m)
		}
	}
	for _, bad := range [][]*leaseholdtest.Member{{stranger}, {nil}, {c.Member(0), c.Member(0)}} {
		if _, err := c.NewClient(leaseholdtest.ClientOptions{Members: bad}); err == nil {
			t.Errorf("made a client of members %v", bad)
		}
		if _, err := c.NewDirectClient(leaseholdtest.ClientOptions{Members: bad}); err == nil {
			t.Errorf("made a direct client of members %v", bad)
		}
	}
	r, err := cl.Status(within(t, long), cl.Endpoint(c.Member(2)))
	must(t, err)
	if r.Header.MemberId != c.Member(2).ID() {
		t.Errorf("member %x answered, want %x", r.Header.MemberId, c.Member(2).ID())
	}
}

func TestClient_PassesOptionsOn(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	var calls int
	cl := c.ClientWith(t, leaseholdtest.ClientOptions{
		DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(
			func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, next grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				calls++
				return next(ctx, method, req, reply, cc, opts...)
			})},
		Configure: func(cfg *clientv3.Config) { cfg.MaxCallSendMsgSize = 1 << 10 },
	})
	must(t, <-putting(t, cl))
	if calls == 0 { // more than one if the server was not ready for the first
		t.Error("the interceptor saw no call")
	}
	if _, err := cl.Put(within(t, long), "key", string(make([]byte, 2<<10))); err == nil {
		t.Error("a message above the configured size was sent")
	}
}

func TestClient_CloseIsIdempotentAndIgnoresFaults(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	for _, d := range []leaseholdtest.Direction{leaseholdtest.Up, leaseholdtest.Down, leaseholdtest.Both} {
		cl := c.Client(t)
		must(t, <-putting(t, cl))
		cl.Blackhole(d)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := cl.Put(ctx, "key", "value")
			done <- err
		}()
		pending(t, done, "a put into a black hole")
		must(t, cl.Close())
		must(t, cl.Close())
		cancel() // the etcd client goes on trying for seconds after its Close
		if err := <-done; err == nil {
			t.Errorf("%v: a put was answered through a black hole", d)
		}
	}
	cl := c.Client(t)
	must(t, cl.Client.Close()) // by the user, behind our back
	must(t, cl.Close())
}

// A client that knows one member must find it again after the link was reset, held and refused.
func TestClient_ComesBackAfterEveryFault(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	link := cl.Link(c.Member(0))
	must(t, <-putting(t, cl))
	for name, fault := range map[string]func(){
		"reset":     link.Reset,
		"refuse":    link.Refuse,
		"hold":      func() { cl.Hold(leaseholdtest.Down) },
		"blackhole": func() { cl.Blackhole(leaseholdtest.Both) },
	} {
		fault()
		done := make(chan error, 1)
		ctx := within(t, long)
		go func() {
			_, err := cl.Get(ctx, "key") // a read is repeated by the client
			done <- err
		}()
		if name != "reset" {
			pending(t, done, name)
		}
		cl.Heal()
		cl.ActiveConnection().ResetConnectBackoff()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClient_DelayAddsToARoundTrip(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	cl := c.Client(t)
	must(t, <-putting(t, cl))
	const delay = 120 * time.Millisecond
	link := cl.Link(c.Member(0))
	link.Delay(leaseholdtest.Both, delay, 0)
	begin := time.Now()
	must(t, <-putting(t, cl))
	if took := time.Since(begin); took < 2*delay {
		t.Errorf("a round trip took %v, want at least %v", took, 2*delay)
	}
	if f := link.Fault(leaseholdtest.Down); f.Delay != delay {
		t.Errorf("the fault downwards is %+v, want a delay of %v", f, delay)
	}
}
