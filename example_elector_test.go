// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// One of several replicas does the work. Run goes on through every loss; when its context ends, the work ends first, and
// then the next replica takes over at once.
func ExampleElector() {
	client, stop := etcd() // yours: clientv3.New(...)
	defer stop()
	ctx, shutdown := context.WithCancel(context.Background()) // yours: signal.NotifyContext(...)

	locks, err := leasehold.New(client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	elector, err := leasehold.NewElector(locks, leasehold.ElectorConfig{
		Name:  "scheduler",
		Value: "10.0.0.1:8080",
		OnStartedLeading: func(ctx context.Context, l *leasehold.Leadership) {
			fmt.Println("leading as", l.Name())
			shutdown() // for the example
			<-ctx.Done()
			fmt.Println("told to stop:", context.Cause(ctx))
		},
		OnStoppedLeading: func() { fmt.Println("stopped") },
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := elector.Run(ctx); err != nil {
		log.Fatal(err)
	}
	if err := locks.Close(context.WithoutCancel(ctx)); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nobody else has to wait")
	// Output:
	// leading as scheduler
	// told to stop: context canceled
	// stopped
	// nobody else has to wait
}

// Observers follow who leads, without a session.
func ExampleElection_Observe() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	locks, err := leasehold.New(client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = locks.Close(ctx) }()
	election := locks.Election("scheduler")

	for leader, err := range election.Observe(ctx) {
		switch {
		case err != nil:
			log.Fatal(err) // ctx has ended, or waiting does not help
		case leader.Token == 0:
			fmt.Println("nobody leads")
			if _, err := election.Campaign(ctx, "10.0.0.1:8080"); err != nil {
				log.Fatal(err)
			}
			continue
		}
		fmt.Println(leader.Value, "leads")
		break
	}
	// Output:
	// nobody leads
	// 10.0.0.1:8080 leads
}

// A register is served by its leader from memory: a read costs no round trip. Memory holds what etcd holds because only the
// leader writes, and every write is bound to its leadership.
type register struct {
	leadership *leasehold.Leadership
	mu         sync.Mutex
	value      string
	unknown    error // of a write that may have been applied
}

// lead loads the register, once the leadership is held: what leaders before have written is there then, and none of
// them can write any more.
func lead(ctx context.Context, l *leasehold.Leadership) (*register, error) {
	resp, err := l.Txn(ctx).Then(clientv3.OpGet("register")).Commit()
	if err != nil {
		return nil, err
	}
	r := &register{leadership: l}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		r.value = string(kvs[0].Value)
	}
	return r, nil
}

func (r *register) write(ctx context.Context, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Runs only while this very leadership exists: a leader that was slow to notice its end writes nothing.
	if _, err := r.leadership.Txn(ctx).Then(clientv3.OpPut("register", value)).Commit(); err != nil {
		r.unknown = err // perhaps it was applied: no read before the register is loaded again
		return err
	}
	r.value = value
	return nil
}

// read answers from memory. The order matters: the value is taken first, then the leadership is asked. If that is valid then, it
// was when the value was taken, so nobody else had written until then.
func (r *register) read() (string, error) {
	r.mu.Lock()
	value, err := r.value, r.unknown
	r.mu.Unlock()
	if err == nil {
		err = r.leadership.Err()
	}
	return value, err
}

// Reads that the leader answers from memory, as recent as a linearizable read of etcd.
func ExampleLeadership_reads() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	l, err := session.Election("register").Campaign(ctx, "10.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	r, err := lead(ctx, l)
	if err != nil {
		log.Fatal(err)
	}
	if err := r.write(ctx, "first"); err != nil {
		log.Fatal(err)
	}
	value, err := r.read()
	fmt.Println(value, err)
	if err := l.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = r.read()
	fmt.Println(err)
	// Output:
	// first <nil>
	// leasehold: the grant was released
}

// What a read costs that the leader answers from memory, against one that etcd answers.
func BenchmarkLeaderRead(b *testing.B) {
	client, stop := etcd()
	defer stop()
	ctx := b.Context()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{TTL: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = session.Close(context.WithoutCancel(ctx)) }()
	l, err := session.Election("register").Campaign(ctx, "10.0.0.1:8080")
	if err != nil {
		b.Fatal(err)
	}
	r, err := lead(ctx, l)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.write(ctx, "value"); err != nil {
		b.Fatal(err)
	}
	b.Run("from memory", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := r.read(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("linearizable", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.Get(ctx, "register"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("serializable", func(b *testing.B) { // for comparison: it may be old
		b.ReportAllocs()
		for b.Loop() {
			if _, err := client.Get(ctx, "register", clientv3.WithSerializable()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
