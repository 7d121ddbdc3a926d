// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/fence/httpfence"
)

// A replica is one instance of the service. The leader keeps the counter in memory, answers reads from there, and writes it
// to etcd in transactions that run only while it leads.
type replica struct {
	address string
	locks   *leasehold.Client
	elector *leasehold.Elector
	server  *http.Server

	mu      sync.Mutex
	reign   *leasehold.Leadership // nil: the counter is not loaded
	counter int
}

// serve runs a replica on a listener until ctx ends.
func serve(ctx context.Context, client *clientv3.Client, listener net.Listener) (err error) {
	r := &replica{address: "http://" + listener.Addr().String()}
	if r.locks, err = leasehold.New(client, leasehold.Config{TTL: 2 * time.Second}); err != nil {
		return err
	}
	r.elector, err = leasehold.NewElector(r.locks, leasehold.ElectorConfig{
		Name:             "leaderhttp",
		Value:            r.address, // what the others redirect to
		OnStartedLeading: r.lead,
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /count", r.leaderOnly(r.count))
	mux.HandleFunc("POST /count", r.leaderOnly(r.add))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, req *http.Request) {
		if err := r.elector.Check(req); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	r.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	serving := make(chan error, 1)
	go func() { serving <- r.server.Serve(listener) }()

	err = r.elector.Run(ctx) // until ctx ends: the work first, then the leadership, so that the next one takes over

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, r.server.Shutdown(closing), r.locks.Close(closing))
	if serr := <-serving; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}

// lead is the work of the leader: it loads the counter and then serves it, until ctx ends.
func (r *replica) lead(ctx context.Context, l *leasehold.Leadership) {
	resp, err := l.Txn(ctx).Then(clientv3.OpGet("counter")).Commit()
	if err != nil {
		return // give the leadership up: another one may have more luck
	}
	counter := 0
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		if counter, err = strconv.Atoi(string(kvs[0].Value)); err != nil {
			return
		}
	}
	r.mu.Lock()
	r.reign, r.counter = l, counter
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock() // waits for a request that is under way
	r.reign = nil
	r.mu.Unlock()
}

// leaderOnly lets the leader serve a request, and the others send it there.
func (r *replica) leaderOnly(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		leader := r.elector.Leader()
		switch {
		case r.elector.IsLeader():
			serve(w, req)
		case leader.Token != 0 && leader.Value != r.address:
			http.Redirect(w, req, leader.Value+req.URL.Path, http.StatusTemporaryRedirect)
		default:
			notNow(w, leasehold.ErrNoLeader)
		}
	}
}

func notNow(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}

// count answers from memory. The leadership is asked after the counter is read: if it is valid then, nobody else had counted before.
func (r *replica) count(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	l, counter := r.reign, r.counter
	r.mu.Unlock()
	if l == nil || !l.Valid() {
		notNow(w, leasehold.ErrNotLeader)
		return
	}
	fmt.Fprintln(w, counter)
}

// add counts on, in etcd first.
func (r *replica) add(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reign == nil {
		notNow(w, leasehold.ErrNotLeader)
		return
	}
	next := clientv3.OpPut("counter", strconv.Itoa(r.counter+1))
	if _, err := r.reign.Txn(req.Context()).Then(next).Commit(); err != nil {
		r.reign = nil // perhaps it was applied: nothing is served before the counter is loaded again, by the next leader
		go func() { _ = r.elector.StepDown(context.WithoutCancel(req.Context())) }()
		notNow(w, err)
		return
	}
	r.counter++
	httpfence.SetToken(w.Header(), r.reign.Token()) // for a client that hands it on to what compares tokens
	fmt.Fprintln(w, r.counter)
}
