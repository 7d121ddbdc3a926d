// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// A holder that does something else meanwhile is told when its grant is lost.
func ExampleSession_Lock() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()

	grant, err := session.Lock(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.Delete(ctx, grant.Key()); err != nil { // for the example: an operator takes it away
		log.Fatal(err)
	}
	finished := make(chan struct{}) // closed when the work is done
	select {
	case <-finished:
		err = grant.Release(ctx)
	case <-grant.Done(): // stop at once: somebody else may hold the name
		err = grant.Err()
	}
	fmt.Println("taken away:", errors.Is(err, leasehold.ErrRevoked))
	fmt.Println("valid:", grant.Valid())
	fmt.Println("the session goes on:", session.Valid())
	// Output:
	// taken away: true
	// valid: false
	// the session goes on: true
}

// A write in etcd that is made only while the grant exists, with a comparison of the caller's own.
func ExampleGrant_Txn() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	grant, err := session.Lock(ctx, "counter")
	if err != nil {
		log.Fatal(err)
	}

	create := func(value string) {
		resp, err := grant.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision("counter"), "=", 0)).
			Then(clientv3.OpPut("counter", value)).
			Else(clientv3.OpGet("counter")).
			Commit()
		switch {
		case errors.Is(err, leasehold.ErrReleased):
			fmt.Println("not the holder any more: neither branch has run")
		case err != nil:
			log.Fatal(err)
		case resp.Succeeded:
			fmt.Println("created")
		default:
			fmt.Printf("there is %s already\n", resp.Responses[0].GetResponseRange().Kvs[0].Value)
		}
	}
	create("1")
	create("2")
	if err := grant.Release(ctx); err != nil {
		log.Fatal(err)
	}
	create("3")
	// Output:
	// created
	// there is 1 already
	// not the holder any more: neither branch has run
}

// A campaign returns when it has won; the value is what others see.
func ExampleElection_Campaign() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	election := session.Election("scheduler")

	leadership, err := election.Campaign(ctx, "10.0.0.1:8080")
	if err != nil {
		log.Fatal(err)
	}
	leader, err := election.Leader(ctx)
	fmt.Println(leader.Value, err)

	if err := leadership.Proclaim(ctx, "10.0.0.1:9090"); err != nil { // the token stays
		log.Fatal(err)
	}
	leader, err = election.Leader(ctx)
	fmt.Println(leader.Value, leader.Token == leadership.Token(), err)

	if err := leadership.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = election.Leader(ctx)
	fmt.Println("nobody leads:", errors.Is(err, leasehold.ErrNoLeader))
	// Output:
	// 10.0.0.1:8080 <nil>
	// 10.0.0.1:9090 true <nil>
	// nobody leads: true
}

// A context carries the grant to where the resource is written, through functions that know nothing of locks.
func ExampleNewContext() {
	client, stop := etcd()
	defer stop()
	ctx := context.Background()
	session, err := leasehold.NewSession(ctx, client, leasehold.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = session.Close(ctx) }()
	grant, err := session.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}

	var resource leasehold.Fence
	write := func(ctx context.Context) error { // far away
		grant, ok := leasehold.FromContext(ctx)
		if !ok {
			return errors.New("nobody holds the lock")
		}
		return resource.Check("report", grant.Token())
	}
	fmt.Println(write(leasehold.NewContext(ctx, grant)))
	fmt.Println(write(ctx))
	// Output:
	// <nil>
	// nobody holds the lock
}
