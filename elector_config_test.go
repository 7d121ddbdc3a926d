// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
)

func TestNewElector_ListsEveryProblem(t *testing.T) {
	t.Parallel()
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cli.Close() }()
	pool, err := leasehold.New(cli, leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = leasehold.NewElector(pool, leasehold.ElectorConfig{
		Value: strings.Repeat("x", 300<<10), Grace: 6 * time.Second, Overrun: 7, OverrunDistance: time.Hour,
		Progress: -1, HoldOff: -1, Tolerance: -1,
	})
	if !errors.Is(err, leasehold.ErrInvalidConfig) || !errors.Is(err, leasehold.ErrInvalidName) {
		t.Errorf("%v matches neither ErrInvalidConfig nor ErrInvalidName", err)
	}
	for _, field := range []string{"Name", "Value", "OnStartedLeading", "Grace", "Overrun 7", "OverrunDistance", "Progress", "HoldOff", "Tolerance"} {
		if err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("no word about %s: %v", field, err)
		}
	}
	if _, err := leasehold.NewElector(nil, leasehold.ElectorConfig{}); !errors.Is(err, leasehold.ErrInvalidConfig) {
		t.Errorf("without a client: %v", err)
	}
	work := func(context.Context, *leasehold.Leadership) {}
	if _, err := leasehold.NewElector(pool, leasehold.ElectorConfig{
		Name: "name", OnStartedLeading: work, Overrun: leasehold.OverrunExit, OnOverrun: func(leasehold.Overrun) {},
	}); !errors.Is(err, leasehold.ErrInvalidConfig) {
		t.Errorf("OnOverrun with OverrunExit: %v", err)
	}
	e, err := leasehold.NewElector(pool, leasehold.ElectorConfig{Name: "a/b", OnStartedLeading: work})
	if err != nil || e.Name() != "election-a%2Fb" || e.IsLeader() || e.Check(nil) != nil || e.Err() != nil {
		t.Errorf("%v", err)
	}
	if err := e.StepDown(t.Context()); !errors.Is(err, leasehold.ErrNotLeader) {
		t.Errorf("StepDown before Run: %v", err)
	}
}
