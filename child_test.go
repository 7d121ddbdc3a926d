// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

// childVariable makes the test's binary run as a holder of its own, for a test that stops a process. Its value is the
// endpoint of etcd.
const childVariable = "LEASEHOLD_TEST_CHILD"

// The child's other arguments are in these variables, and its term is childTTL.
const (
	childPrefix = "LEASEHOLD_TEST_PREFIX"
	childTTL    = 2 * time.Second
)

// runChild locks "name", says so, and checks the grant without pause. It reports the first check after each gap that
// is longer than the term. It ends with its standard input.
func runChild() int {
	if err := child(); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

func child() error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		cancel()
	}()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{os.Getenv(childVariable)}})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	var g *leasehold.Grant
	for g == nil || !g.Valid() { // a machine that is busy beyond measure may lose the first ones
		s, err := leasehold.NewSession(ctx, client, leasehold.Config{TTL: childTTL, Prefix: os.Getenv(childPrefix)})
		if err != nil {
			return err
		}
		if g, err = s.Lock(ctx, "name"); err != nil && !errors.Is(err, leasehold.ErrExpired) {
			return err
		}
	}
	last := time.Now() // before the parent knows: it stops the process as soon as it reads the line
	fmt.Println("held", g.Token(), true)
	for ctx.Err() == nil {
		before := time.Now()
		valid := g.Valid()
		after := time.Now()
		if after.Sub(before) > childTTL {
			valid = g.Valid() // the process stood still inside the check: the first one after is the next
		}
		if after.Sub(last) > childTTL {
			fmt.Println("woke", g.Token(), valid)
		}
		last = after
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}
