// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"example.com/leasehold"
	"example.com/leasehold/internal/etcdfake"
)

// The instants of an elector, exact: the fake network has no delay, so that a renewal is sent when it arrives.

// usable is how much of a term the holder uses by the formula, here written a second time.
func usable(d time.Duration) time.Duration {
	const rho = 1e-3
	return time.Duration(float64(d)*(1-rho)/(1+rho)) - 100*time.Millisecond
}

// lastSent is when the lease was last renewed, or granted if it was not.
func lastSent(c *etcdfake.Cluster, w *work) time.Time {
	all := c.Renewals(w.l.Session().Lease())
	if len(all) == 0 {
		return w.began
	}
	return all[len(all)-1].Arrived
}

// cut takes a client off the network until the function that it returns is called.
func cut(c *etcdfake.Cluster, cli *clientv3.Client) (mend func()) {
	for i := range c.Size() {
		c.Link(cli, i).Hold(true, true)
	}
	return func() {
		for i := range c.Size() {
			c.Link(cli, i).Release(true, true)
		}
	}
}

func wantInstant(t *testing.T, what string, got, want time.Time) {
	t.Helper()
	// A microsecond for the rounding of the formula.
	if d := got.Sub(want); d.Abs() > time.Microsecond {
		t.Errorf("%s: %v off", what, d)
	}
}

func wantCause(t *testing.T, w *work, want error) {
	t.Helper()
	if cause := context.Cause(w.ctx); w.ctx.Err() == nil || !errors.Is(cause, want) {
		t.Errorf("the context of the work: %v, cause %v, want %v", w.ctx.Err(), cause, want)
	}
}

// hanging makes the work of a replica go on after its context has ended, until the channel is closed.
func hanging(hang chan struct{}) func(*replica, *leasehold.ElectorConfig) {
	return func(r *replica, ec *leasehold.ElectorConfig) {
		ec.OnStartedLeading = func(ctx context.Context, l *leasehold.Leadership) { r.work(ctx, l, hang) }
	}
}

// freeing counts the requests that could free a name: revocations, and transactions that delete.
func freeing(c *etcdfake.Cluster, host string) *atomic.Int64 {
	var n atomic.Int64
	c.Hook(func(ctx context.Context, call etcdfake.Call, next etcdfake.Next) (proto.Message, error) {
		if call.Host == host {
			switch req := call.Request.(type) {
			case *pb.LeaseRevokeRequest:
				n.Add(1)
			case *pb.TxnRequest:
				for _, op := range req.Success {
					if op.GetRequestDeleteRange() != nil {
						n.Add(1)
					}
				}
			}
		}
		return next(ctx)
	})
	return &n
}

func TestElector_WorkIsToldToStopGraceBeforeTheLocalExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		cli := c.Client(t)
		overruns := make(chan leasehold.Overrun, 1)
		hang := make(chan struct{})
		r := startReplica(t, cli, leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
			hanging(hang)(r, ec)
			ec.Grace = 3 * time.Second
			ec.OnOverrun = func(o leasehold.Overrun) { overruns <- o }
		})
		w := r.leads()
		time.Sleep(time.Minute)
		defer cut(c, cli)()
		<-w.ctx.Done()
		wantInstant(t, "the context ends", time.Now(), lastSent(c, w).Add(usable(15*time.Second)-3*time.Second))
		wantCause(t, w, leasehold.ErrExpiring)
		if !w.l.Valid() || r.IsLeader() {
			t.Errorf("in the grace: valid %v, leader %v", w.l.Valid(), r.IsLeader())
		}
		close(hang)
		if token := <-r.stops; token != w.l.Token() {
			t.Errorf("stopped %v, want %v", token, w.l.Token())
		}
		time.Sleep(time.Minute)
		select {
		case o := <-overruns:
			t.Errorf("work that returned in time has overrun: %+v", o)
		default:
		}
	})
}

func TestElector_AnOverrunIsToldAtItsDistance(t *testing.T) {
	for _, distance := range []time.Duration{0, time.Nanosecond, 100 * time.Millisecond, time.Second} {
		t.Run(distance.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := etcdfake.NewForTest(t, etcdfake.Options{})
				cli := c.Client(t)
				type told struct {
					leasehold.Overrun
					at time.Time
				}
				overruns := make(chan told, 10)
				hang := make(chan struct{})
				r := startReplica(t, cli, leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
					hanging(hang)(r, ec)
					ec.OverrunDistance = distance
					ec.OnOverrun = func(o leasehold.Overrun) { overruns <- told{o, time.Now()} }
				})
				w := r.leads()
				time.Sleep(time.Minute)
				defer cut(c, cli)()
				<-w.ctx.Done()
				ended := time.Now()
				o := <-overruns
				if distance == 0 {
					distance = 100 * time.Millisecond // the margin: at the local expiry
				}
				others := lastSent(c, w).Add(usable(15*time.Second) + 100*time.Millisecond)
				wantInstant(t, "told", o.at, others.Add(-distance))
				if o.Name != "name" || o.Token != w.l.Token() || !errors.Is(o.Reason, leasehold.ErrExpiring) || o.Stopping != o.at.Sub(ended) ||
					(o.Distance-distance).Abs() > time.Microsecond {
					t.Errorf("told %+v, %v after the context ended", o, o.at.Sub(ended))
				}
				close(hang)
				<-r.stops
				time.Sleep(time.Minute)
				if len(overruns) > 0 {
					t.Error("told twice")
				}
			})
		})
	}
}

// What a lost lease leaves in etcd is tidied up only after the work has returned: before that, it would let a
// successor start beside it.
func TestElector_NothingIsFreedWhileTheWorkRuns(t *testing.T) {
	t.Run("expired", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := etcdfake.NewForTest(t, etcdfake.Options{})
			cli := c.Client(t)
			hang := make(chan struct{})
			r := startReplica(t, cli, leasehold.Config{Margin: 5 * time.Second}, hanging(hang))
			w := r.leads()
			time.Sleep(time.Minute)
			n := freeing(c, c.HostOf(cli).Name())
			mend := cut(c, cli)
			<-w.l.Done()
			mend()
			time.Sleep(4 * time.Second) // the lease still lives: a margin of five is left
			if len(c.Keys("leasehold/")) != 1 || n.Load() != 0 {
				t.Errorf("%d keys, %d requests that free the name, while the work runs", len(c.Keys("leasehold/")), n.Load())
			}
			close(hang)
			<-r.stops
			synctest.Wait()
			if n.Load() == 0 {
				t.Error("the lease is not revoked although the work has returned")
			}
		})
	})
	t.Run("overwritten", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := etcdfake.NewForTest(t, etcdfake.Options{})
			cli := c.Client(t)
			hang := make(chan struct{})
			r := startReplica(t, cli, leasehold.Config{}, hanging(hang))
			w := r.leads()
			other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
			time.Sleep(time.Minute)
			if _, err := c.Put(w.l.Key(), "somebody else", w.l.Session().Lease()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			wantCause(t, w, leasehold.ErrRevoked)
			time.Sleep(time.Minute)
			if len(other.works) > 0 {
				t.Error("a successor has started although the work still runs and its lease is renewed")
			}
			close(hang)
			<-r.stops
			synctest.Wait()
			if len(other.works) == 0 {
				t.Error("no successor although the work has returned")
			}
		})
	})
}

func TestElector_WorkThatStopsSlowlyKeepsTheName(t *testing.T) {
	ends := map[string]func(*replica){
		"shut down":    func(r *replica) { r.stop() },
		"stepped down": func(r *replica) { go func() { _ = r.StepDown(context.WithoutCancel(r.t.Context())) }() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := etcdfake.NewForTest(t, etcdfake.Options{})
				hang := make(chan struct{})
				overruns := make(chan leasehold.Overrun, 1)
				r := startReplica(t, c.Client(t), leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
					hanging(hang)(r, ec)
					ec.OnOverrun = func(o leasehold.Overrun) { overruns <- o }
				})
				w := r.leads()
				other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
				time.Sleep(time.Second)
				end(r)
				ended := time.Now()
				<-w.ctx.Done()
				if r.IsLeader() || !w.l.Valid() {
					t.Errorf("leader %v, valid %v while it stops", r.IsLeader(), w.l.Valid())
				}
				for time.Since(ended) < 10*time.Minute {
					time.Sleep(time.Second)
					// Unhealthy a term and the tolerance, another term, after it was to stop.
					if err, late := r.Check(nil), time.Since(ended) > 30*time.Second; (err != nil) != late {
						t.Fatalf("%v after it was to stop: %v", time.Since(ended), err)
					}
				}
				if len(other.works) > 0 || len(overruns) > 0 || len(r.stops) > 0 {
					t.Errorf("%d successors, %d overruns, %d stopped, while the work runs", len(other.works), len(overruns), len(r.stops))
				}
				close(hang)
				<-r.stops
				synctest.Wait()
				if len(other.works) != 1 || r.Check(nil) != nil {
					t.Errorf("%d successors, %v after the work has returned", len(other.works), r.Check(nil))
				}
			})
		})
	}
}

func TestElector_WorkWithoutProgressDoesNotLeadForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		cli := c.Client(t)
		hang := make(chan struct{})
		overruns := make(chan time.Time, 1)
		r := startReplica(t, cli, leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
			hanging(hang)(r, ec)
			ec.Progress = 7 * time.Second
			ec.OnOverrun = func(leasehold.Overrun) { overruns <- time.Now() }
		})
		w := r.leads()
		n := freeing(c, c.HostOf(cli).Name())
		other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
		for range 20 {
			time.Sleep(6999 * time.Millisecond)
			w.l.Progress()
		}
		if w.ctx.Err() != nil {
			t.Fatalf("work that makes progress was stopped: %v", context.Cause(w.ctx))
		}
		last := time.Now()
		<-w.ctx.Done()
		wantInstant(t, "the context ends", time.Now(), last.Add(7*time.Second))
		wantCause(t, w, leasehold.ErrNoProgress)
		sent := lastSent(c, w)
		wantInstant(t, "the overrun", <-overruns, sent.Add(usable(15*time.Second)))
		o := other.leads()
		// The grantor's term, its scan every 500 ms, no more.
		if late := o.began.Sub(sent.Add(15 * time.Second)); late < 0 || late > 500*time.Millisecond {
			t.Errorf("the successor leads %v after the term of the last renewal", late)
		}
		if n.Load() != 0 {
			t.Errorf("%d requests to free the name while the work hangs", n.Load())
		}
		close(hang)
		<-r.stops
	})
}

func TestElector_WorkThatReturnsAfterNoProgressIsSucceededAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		r := startReplica(t, c.Client(t), leasehold.Config{}, func(_ *replica, ec *leasehold.ElectorConfig) { ec.Progress = 7 * time.Second })
		w := r.leads()
		other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
		<-w.ctx.Done()
		stopped := time.Now()
		wantInstant(t, "the successor leads", other.leads().began, stopped)
	})
}

// Work that was told to stop and hangs then does not keep the name for ever either, if progress is asked of it.
func TestElector_WorkThatHangsWhileItStopsLosesTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := etcdfake.NewForTest(t, etcdfake.Options{})
		hang := make(chan struct{})
		r := startReplica(t, c.Client(t), leasehold.Config{}, func(r *replica, ec *leasehold.ElectorConfig) {
			hanging(hang)(r, ec)
			ec.Progress = time.Minute
		})
		w := r.leads()
		other := startReplica(t, c.Client(t), leasehold.Config{}, nil)
		time.Sleep(30 * time.Second)
		r.stop()
		<-w.ctx.Done()
		wantCause(t, w, context.Canceled)
		o := other.leads()
		sent := lastSent(c, w)
		if since := sent.Sub(w.began); since > time.Minute || since < 55*time.Second {
			t.Errorf("renewed for the last time %v after the last progress, want just before a minute", since)
		}
		if late := o.began.Sub(sent.Add(15 * time.Second)); late < 0 || late > 500*time.Millisecond {
			t.Errorf("the successor leads %v after the term of the last renewal", late)
		}
		close(hang)
	})
}
