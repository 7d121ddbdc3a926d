// SPDX-License-Identifier: Apache-2.0

package leaseholdtest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"example.com/leasehold/leaseholdtest"
)

func TestStart_GrantsLeasesOfOneSecond(t *testing.T) {
	for _, members := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			c := leaseholdtest.Start(t, leaseholdtest.Options{Members: members})
			cl := c.Client(t)
			lease, err := cl.Grant(within(t, long), 1)
			must(t, err)
			if lease.TTL != 1 {
				t.Errorf("granted %d s, want 1 s", lease.TTL)
			}
			list, err := cl.MemberList(within(t, long))
			must(t, err)
			if len(list.Members) != members {
				t.Errorf("the cluster has %d members, want %d", len(list.Members), members)
			}
		})
	}
}

func TestStart_StopsWithTheTest(t *testing.T) {
	dir := t.TempDir()
	var endpoint string
	t.Run("test", func(t *testing.T) {
		c := leaseholdtest.Start(t, leaseholdtest.Options{Dir: dir})
		endpoint = strings.TrimPrefix(c.Endpoints()[0], "http://")
		_, err := c.Client(t).Put(within(t, long), "key", "value")
		must(t, err)
		if files(t, dir) == 0 {
			t.Error("no file under Options.Dir while the cluster runs")
		}
	})
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
	if conn, err := net.Dial("tcp", endpoint); err == nil {
		_ = conn.Close()
		t.Error("something still listens at the member's endpoint")
	}
}

func TestStart_RefusesBadOptionsWithEveryProblem(t *testing.T) {
	_, err := leaseholdtest.StartCluster(t.Context(), leaseholdtest.Options{
		Members:      2,
		Heartbeat:    1500 * time.Microsecond,
		Election:     time.Millisecond,
		QuotaBytes:   -1,
		AuthTokenTTL: 1500 * time.Millisecond,
	})
	if err == nil {
		t.Fatal("bad options were accepted")
	}
	for _, field := range []string{"Members", "Heartbeat", "Election", "QuotaBytes", "AuthTokenTTL"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("the error does not name %s: %v", field, err)
		}
	}
}

func TestStart_EndedContextLeavesNothing(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: 3, Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("StartCluster returned %v, want %v", err, context.Canceled)
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestStart_ClustersInOneProcessAreStrangers(t *testing.T) {
	const n = 3
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = useCluster(t.Context(), i) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
}

// useCluster runs a cluster of its own in which the key "i" must be absent, and writes it.
func useCluster(ctx context.Context, i int) (err error) {
	c, err := leaseholdtest.StartCluster(ctx, leaseholdtest.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	cl, err := c.NewClient(leaseholdtest.ClientOptions{})
	if err != nil {
		return err
	}
	r, err := cl.Txn(ctx).If(clientv3.Compare(clientv3.Version("i"), "=", 0)).Then(clientv3.OpPut("i", fmt.Sprint(i))).Commit()
	if err == nil && !r.Succeeded {
		err = errors.New("the key of another cluster is here")
	}
	return err
}

func TestClose_TwentyClustersInARowLeaveNothing(t *testing.T) {
	leaseholdtest.NoGoroutines(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	must(t, useCluster(t.Context(), 0)) // what the process opens once and keeps
	must(t, goleak.Find(goleak.IgnoreCurrent()))
	before := openFiles(t)
	for i := range 20 {
		must(t, useCluster(t.Context(), i))
	}
	if n := files(t, dir); n != 0 {
		t.Errorf("%d files are left", n)
	}
	leaseholdtest.Eventually(t, long, "as many open files as before", func() bool { return openFiles(t) <= before })
}

func TestClose_DoesNotWaitForStreams(t *testing.T) {
	for name, fault := range map[string]func(*leaseholdtest.Cluster, *leaseholdtest.Client){
		"healthy":    func(*leaseholdtest.Cluster, *leaseholdtest.Client) {},
		"held":       func(_ *leaseholdtest.Cluster, cl *leaseholdtest.Client) { cl.Hold(leaseholdtest.Both) },
		"blackholed": func(_ *leaseholdtest.Cluster, cl *leaseholdtest.Client) { cl.Blackhole(leaseholdtest.Both) },
		"paused":     func(c *leaseholdtest.Cluster, _ *leaseholdtest.Client) { c.Member(0).Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			leaseholdtest.NoGoroutines(t)
			c, err := leaseholdtest.StartCluster(within(t, long), leaseholdtest.Options{})
			must(t, err)
			cl, err := c.NewClient(leaseholdtest.ClientOptions{})
			must(t, err)
			direct, err := c.NewDirectClient(leaseholdtest.ClientOptions{})
			must(t, err)
			for _, cl := range []*clientv3.Client{cl.Client, direct} {
				lease, err := cl.Grant(within(t, long), 60)
				must(t, err)
				_, err = cl.KeepAlive(t.Context(), lease.ID)
				must(t, err)
				created := cl.Watch(t.Context(), "key", clientv3.WithCreatedNotify())
				<-created
			}
			fault(c, cl)
			closed := make(chan error, 1)
			go func() { closed <- c.Close() }()
			select {
			case err := <-closed:
				must(t, err)
			case <-within(t, long).Done():
				t.Fatal("the cluster is still closing")
			}
			must(t, direct.Close())
			must(t, c.Close()) // again
			if _, err := c.NewClient(leaseholdtest.ClientOptions{}); err == nil {
				t.Error("a closed cluster made a client")
			}
			if err := c.Member(0).Restart(t.Context()); err == nil {
				t.Error("a closed cluster started a member")
			}
		})
	}
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	return len(entries)
}

// openFiles counts the process's open files, where the system tells.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	must(t, err)
	return len(entries)
}
