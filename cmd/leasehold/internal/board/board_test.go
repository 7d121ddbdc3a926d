// SPDX-License-Identifier: Apache-2.0

package board

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func (c Change) brief() string {
	kinds := map[Kind]string{Holds: "holds", Waits: "waits", Left: "left", Freed: "freed", Speaks: "speaks", Stray: "stray"}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Name, kinds[c.Kind], c.Place.Holder))
}

// follow starts a board and returns its news.
func follow(t *testing.T, c *leaseholdtest.Cluster, prefix string) <-chan Change {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	news, ended := make(chan Change, 1000), make(chan struct{})
	etcd := c.DirectClient(t)
	go func() {
		defer close(ended)
		b := New("leasehold/")
		_ = b.Follow(ctx, etcd, prefix, time.Minute, func(c Change) {
			for _, s := range b.Standings() {
				if s.Name == c.Name && c.Kind == Holds && s.Places[0].Token != c.Place.Token {
					t.Errorf("told that %s holds, the board says %s", c.Place.Holder, s.Places[0].Holder)
				}
			}
			news <- c
		})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return news
}

// want waits for the news and compares it.
func want(t *testing.T, news <-chan Change, all ...string) {
	t.Helper()
	for _, w := range all {
		select {
		case c := <-news:
			if c.brief() != w {
				t.Fatalf("news %q, want %q", c.brief(), w)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no news, want %q", w)
		}
	}
}

func put(t *testing.T, etcd *clientv3.Client, key, value string) {
	t.Helper()
	retried(t, func() error {
		_, err := etcd.Put(t.Context(), key, value)
		return err
	})
}

// retried calls f until the server is there to answer: just started again, or its connection, it may not be.
func retried(t *testing.T, f func() error) {
	t.Helper()
	leaseholdtest.Eventually(t, time.Minute, "the server answers", func() bool {
		err := f()
		code := status.Code(err)
		if told, ok := errors.AsType[rpctypes.EtcdError](err); ok {
			code = told.Code()
		}
		if err != nil && code != codes.Unavailable {
			t.Fatal(err)
		}
		return err == nil
	})
}

func del(t *testing.T, etcd *clientv3.Client, key string) {
	t.Helper()
	if _, err := etcd.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
}

func TestFollow_TellsWhoGotWhat(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	etcd := c.DirectClient(t)
	put(t, etcd, "leasehold/a/1-1", "one")
	put(t, etcd, "leasehold/other/1-1", "not followed")
	news := follow(t, c, "a")
	want(t, news, "a holds one")
	put(t, etcd, "leasehold/a/1-2", "two")
	put(t, etcd, "leasehold/a/1-3", "three")
	want(t, news, "a waits two", "a waits three")
	del(t, etcd, "leasehold/a/1-2")
	want(t, news, "a left two")
	put(t, etcd, "leasehold/a/1-1", "another value")
	want(t, news, "a speaks another value")
	del(t, etcd, "leasehold/a/1-1")
	want(t, news, "a holds three")
	del(t, etcd, "leasehold/a/1-3")
	want(t, news, "a freed three")
	put(t, etcd, "leasehold/astray", "x")
	want(t, news, "stray x")
}

func TestFollow_SurvivesOutageAndCompaction(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	etcd := c.DirectClient(t)
	put(t, etcd, "leasehold/a/1-1", "one")
	news := follow(t, c, "")
	want(t, news, "a holds one")
	for range 2 {
		if err := c.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.RestartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		put(t, etcd, "leasehold/b/1-1", "x")
		del(t, etcd, "leasehold/b/1-1")
		if _, err := c.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(t, etcd, "leasehold/a/1-2", "two")
	for {
		select {
		case n := <-news: // what came and went meanwhile may have been seen or not
			if n.brief() == "a waits two" {
				return
			}
			if !slices.Contains([]string{"b holds x", "b freed x"}, n.brief()) {
				t.Fatalf("news %q", n.brief())
			}
		case <-time.After(time.Minute):
			t.Fatal("no news after the outage")
		}
	}
}

func TestBecome_NamesTheOldHolderAtAHandOver(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	etcd := c.DirectClient(t)
	s, err := leasehold.NewSession(t.Context(), etcd, leasehold.Config{Holder: "me"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	g, err := s.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	put(t, etcd, "leasehold/a/stuck", "next")
	news := follow(t, c, "")
	want(t, news, "a holds me", "a waits next")
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := <-news
	if n.brief() != "a holds next" || n.Before.Holder != "me" || n.Before.Token != g.Token() {
		t.Errorf("%q, before %+v", n.brief(), n.Before)
	}
	if n.Place.Problem == "" {
		t.Error("a key without a lease is not pointed out")
	}
}
