// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"example.com/leasehold"
	"example.com/leasehold/internal/etcdfake"
)

// What an elector does after a term, and while there is none.

func TestElector_StepDownHoldsOffUntilAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		r := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) { ec.HoldOff = 40 * time.Second })
		w := r.leads()
		down := time.Now()
		if err := r.StepDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantCause(t, w, leasehold.ErrSteppedDown)
		if token := <-r.stops; token != w.l.Token() || len(c.Keys("leasehold/")) != 0 {
			t.Errorf("stopped %v, %d keys, when StepDown has returned", token, len(c.Keys("leasehold/")))
		}
		if err := r.StepDown(t.Context()); !errors.Is(err, leasehold.ErrNotLeader) {
			t.Errorf("StepDown of a replica that does not lead: %v", err)
		}
		// Nobody else: after the hold-off it leads again.
		w = r.leads()
		wantInstant(t, "leads again", w.began, down.Add(40*time.Second))
		// Somebody else: behind that one it stands in line again at once.
		other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
		synctest.Wait()
		if err := r.StepDown(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := other.leads()
		synctest.Wait()
		if line := c.Keys("leasehold/"); len(line) != 2 || line[0].CreateRevision != int64(o.l.Token()) {
			t.Errorf("%d in line", len(line))
		}
	})
}

// Work that returns by itself gives way to another replica, and does not spin if there is none.
func TestElector_WorkThatReturnsGivesTheLeadershipUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		began := time.Now()
		r := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) {
			ec.OnStoppedLeading = nil
			ec.OnStartedLeading = func(context.Context, *leasehold.Leadership) {}
		})
		time.Sleep(time.Hour)
		r.shutDown()
		if n := c.Revision() / 2; n < 200 || n > 241 {
			t.Errorf("%d terms in %v, want one each 15 s", n, time.Since(began))
		}
	})
}

func TestElector_KeysThatAreTakenAwayDoNotMakeItSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		r := startReplica(t, c.Client(t), leasehold.Config{}, nil)
		began := time.Now()
		for time.Since(began) < 10*time.Minute {
			time.Sleep(10 * time.Millisecond)
			if _, err := c.DeletePrefix("leasehold/"); err != nil {
				t.Fatal(err)
			}
		}
		// With a pause of 2.5 to 5 s between tries once they have failed often.
		if n := len(r.works); n > 300 {
			t.Errorf("%d terms in %v", n, time.Since(began))
		}
		r.shutDown()
		if len(r.works) != len(r.stops) {
			t.Errorf("%d started, %d stopped", len(r.works), len(r.stops))
		}
	})
}

func TestElector_AnOutageCostsLittleAndEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		var attempts atomic.Int64
		cli := c.Client(t, func(cfg *clientv3.Config) {
			cfg.DialOptions = append(cfg.DialOptions,
				grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
					attempts.Add(1)
					return invoke(ctx, method, req, reply, cc, opts...)
				}),
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
					attempts.Add(1)
					return stream(ctx, desc, cc, method, opts...)
				}))
		})
		r := startReplica(t, cli, leasehold.Config{}, nil)
		w := r.leads()
		time.Sleep(time.Minute)
		c.Link(cli, 0).Refuse()
		<-w.ctx.Done()
		before := attempts.Load()
		time.Sleep(3 * time.Minute)
		if n := attempts.Load() - before; n > 20*3*60 {
			t.Errorf("%d requests and streams in 3 minutes without etcd", n)
		} else {
			t.Logf("%d requests and streams in 3 minutes without etcd", n)
		}
		if err := r.Err(); err == nil || r.IsLeader() || r.Check(nil) != nil {
			t.Errorf("without etcd: error %v, leader %v, check %v", err, r.IsLeader(), r.Check(nil))
		}
		c.Link(cli, 0).Accept()
		back := time.Now()
		w = r.leads()
		if after := w.began.Sub(back); after > 5*time.Second {
			t.Errorf("leads %v after etcd was back", after)
		}
		if r.Err() != nil {
			t.Errorf("leads, and says %v", r.Err())
		}
	})
}

func TestElector_CheckTurnsUnhealthyATermAndTheToleranceAfterTheLastRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		cli := c.Client(t)
		hang := make(chan struct{})
		r := startReplica(t, cli, leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
			hanging(hang)(r, ec)
			ec.Tolerance = 4 * time.Second
		})
		w := r.leads()
		time.Sleep(time.Minute)
		defer cut(c, cli)()
		<-w.l.Done()
		over := lastSent(c, w).Add(usable(15*time.Second) + 100*time.Millisecond) // the term, less the drift
		time.Sleep(time.Until(over.Add(4*time.Second - time.Millisecond)))
		if err := r.Check(nil); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := r.Check(nil); err == nil || !errors.Is(err, leasehold.ErrExpired) {
			t.Errorf("Check: %v, want it unhealthy because expired", err)
		}
		close(hang)
		<-r.stops
		synctest.Wait()
		if err := r.Check(nil); err != nil {
			t.Errorf("after the work has returned: %v", err)
		}
	})
}

func TestElector_HearsOfEveryLeaderInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		a := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) { ec.Value = "a" })
		wa := a.leads()
		b := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) { ec.Value = "b" })
		synctest.Wait()
		if err := wa.l.Proclaim(t.Context(), "a2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a watch that began in the past is served every 100 ms
		a.shutDown()
		b.leads()
		synctest.Wait()
		if l := b.Leader(); l.Value != "b" || !b.IsLeader() || b.Leadership() == nil || a.Leader() != (leasehold.Leader{}) {
			t.Errorf("b hears of %+v, leader %v; a, which does not run, hears of %+v", l, b.IsLeader(), a.Leader())
		}
		var got []string
		for len(b.heard) > 0 {
			got = append(got, (<-b.heard).Value)
		}
		if want := "a a2 b"; strings.Join(got, " ") != want {
			t.Errorf("b has heard of %q, want %q", got, want)
		}
	})
}

func TestElector_ASlowListenerHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		heard, goOn := make(chan leasehold.Leader), make(chan struct{})
		r := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) {
			ec.OnNewLeader = func(l leasehold.Leader) { heard <- l; <-goOn }
		})
		w := r.leads()
		<-heard // and is stuck in that call
		for i := range 5 {
			if err := w.l.Proclaim(t.Context(), strconv.Itoa(i)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if l := r.Leader(); l.Value != "4" {
			t.Errorf("Leader says %+v", l)
		}
		goOn <- struct{}{}
		if l := <-heard; l.Value != "4" {
			t.Errorf("told of %+v, want only the last", l)
		}
		close(goOn)
	})
}
