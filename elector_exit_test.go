// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// electorChildVariable makes the test below run as a process whose work does not return. Its value is etcd's endpoint.
const electorChildVariable = "LEASEHOLD_TEST_ELECTOR_CHILD"

func TestElector_OverrunExitEndsTheProcess(t *testing.T) {
	if endpoint := os.Getenv(electorChildVariable); endpoint != "" {
		overrunningChild(t, endpoint)
		return
	}
	t.Parallel()
	h := newHall(t)
	cl := h.Client(t) // the child connects through its links
	cmd := exec.CommandContext(within(h.t), os.Args[0], "-test.run=^TestElector_OverrunExitEndsTheProcess$")
	cmd.Env = append(os.Environ(), electorChildVariable+"="+cl.Endpoints()[0], childPrefix+"="+h.prefix)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watching, _ := h.standing(time.Minute)
	leaseholdtest.Eventually(t, step, "the work runs", func() bool {
		l, err := watching.Election("name").Leader(within(t))
		return err == nil && l.Value == "at work"
	})
	cl.Blackhole(leaseholdtest.Both)
	err := cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("the process ended with %v, want status 1", err)
	}
	if !strings.Contains(out.String(), `election "name"`) || !strings.Contains(out.String(), "exit") {
		t.Errorf("it does not say why it ends: %s", &out)
	}
	cl.Heal()
}

func overrunningChild(t *testing.T, endpoint string) {
	cli, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}})
	if err != nil {
		t.Fatal(err)
	}
	startReplica(t, cli, leasehold.Config{TTL: 5 * time.Second, Prefix: os.Getenv(childPrefix)}, func(_ *replica, ec *leasehold.ElectorConfig) {
		ec.OnStartedLeading = func(ctx context.Context, l *leasehold.Leadership) {
			if err := l.Proclaim(ctx, "at work"); err == nil {
				<-t.Context().Done() // not ctx
			}
		}
		ec.OnStoppedLeading = nil // a term that ends before the value is in etcd is followed by another
		ec.Overrun = leasehold.OverrunExit
	})
	<-t.Context().Done() // the process ends before
}
