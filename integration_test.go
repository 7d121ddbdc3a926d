// SPDX-License-Identifier: Apache-2.0

package leasehold_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

// The tests of this package's external files run against embedded etcd. Most of them wait: for a term to pass, for a
// fault to be noticed. So they run side by side, on clusters that they share as long as their faults concern nobody
// else: the faults of a client's links are its own. A test that stops members or cuts them off starts a cluster of its own.

// step bounds one step of a test: far more than any machine needs, so that only a step that hangs exceeds it.
const step = time.Minute

// lastLogs is how much of what the package logged a failed test shows.
const lastLogs = 30

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(runChild())
	}
	flag.Parse()
	sideBySide := true
	flag.Visit(func(f *flag.Flag) { sideBySide = sideBySide && f.Name != "test.parallel" })
	if sideBySide {
		// Tests that wait need no processor of their own.
		_ = flag.Set("test.parallel", "8")
	}
	goleak.VerifyTestMain(withShared{m})
}

// withShared runs the tests and then stops the shared clusters, so that no goroutine of theirs counts as a leak.
type withShared struct{ m *testing.M }

func (w withShared) Run() int {
	code := w.m.Run()
	for _, s := range []*sharedCluster{solo, trio} {
		if err := s.close(); err != nil {
			println("close a shared cluster:", err.Error())
			code = max(code, 1)
		}
	}
	return code
}

// A sharedCluster is started when it is first asked for, and runs until all tests are over.
type sharedCluster struct {
	members int
	once    sync.Once
	cluster *leaseholdtest.Cluster
	err     error
}

var (
	solo = &sharedCluster{members: 1}
	trio = &sharedCluster{members: 3}
)

func (s *sharedCluster) start(t testing.TB) *leaseholdtest.Cluster {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*step)
		defer cancel()
		s.cluster, s.err = leaseholdtest.StartCluster(ctx, leaseholdtest.Options{Members: s.members})
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func (s *sharedCluster) close() error {
	if s.cluster == nil {
		return nil
	}
	return s.cluster.Close()
}

// A scene is a cluster and the part of its keys that one test may use. When the test has closed what it opened, no
// key may be left there.
type scene struct {
	*leaseholdtest.Cluster
	t      testing.TB
	prefix string
	logger *zap.Logger
	login  leaseholdtest.ClientOptions // of the operator

	once   sync.Once
	direct *clientv3.Client
}

// on makes the scene of a test on a shared cluster.
func (s *sharedCluster) scene(t testing.TB) *scene {
	t.Helper()
	return newScene(t, s.start(t))
}

// stage starts a cluster for one test alone.
func stage(t testing.TB, o leaseholdtest.Options) *scene {
	t.Helper()
	return newScene(t, leaseholdtest.Start(t, o))
}

func newScene(t testing.TB, c *leaseholdtest.Cluster) *scene {
	sc := &scene{Cluster: c, t: t, prefix: t.Name() + "/"}
	core, logs := observer.New(zap.DebugLevel)
	sc.logger = zap.New(core)
	t.Cleanup(func() {
		if !t.Failed() {
			c.NoKeysWithin(t, step, sc.prefix)
		}
		if t.Failed() {
			all := logs.All()
			for _, e := range all[max(0, len(all)-lastLogs):] {
				t.Log(e.Time.Format("05.000"), e.Level, e.Message, e.ContextMap())
			}
		}
	})
	return sc
}

func (sc *scene) config(ttl time.Duration) leasehold.Config {
	return leasehold.Config{TTL: ttl, Prefix: sc.prefix, Logger: sc.logger}
}

// session opens a session, which is closed when the test ends.
func (sc *scene) session(cl *leaseholdtest.Client, ttl time.Duration) *leasehold.Session {
	sc.t.Helper()
	s, err := leasehold.NewSession(within(sc.t), cl.Client, sc.config(ttl))
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { closeAtEnd(sc.t, s) })
	return s
}

// newSession opens a session on a client of its own.
func (sc *scene) newSession(ttl time.Duration) *leasehold.Session {
	sc.t.Helper()
	return sc.session(sc.Client(sc.t), ttl)
}

// pool makes a Client, which is closed when the test ends.
func (sc *scene) pool(cl *leaseholdtest.Client, ttl time.Duration) *leasehold.Client {
	sc.t.Helper()
	c, err := leasehold.New(cl.Client, sc.config(ttl))
	if err != nil {
		sc.t.Fatal(err)
	}
	sc.t.Cleanup(func() { closeAtEnd(sc.t, c) })
	return c
}

type closer interface {
	Close(ctx context.Context) error
}

func closeAtEnd(t testing.TB, c closer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), step)
	defer cancel()
	if err := c.Close(ctx); err != nil && !errors.Is(err, leasehold.ErrClosed) {
		t.Errorf("close at the end of the test: %v", err)
	}
}

// operator is a client that goes straight to the members, past all faults.
func (sc *scene) operator() *clientv3.Client {
	sc.t.Helper()
	sc.once.Do(func() {
		var err error
		if sc.direct, err = sc.NewDirectClient(sc.login); err != nil {
			sc.t.Fatal(err)
		}
		sc.t.Cleanup(func() { _ = sc.direct.Close() })
	})
	return sc.direct
}

// line returns the keys of a plain name, the holder's first.
func (sc *scene) line(name string) []string {
	sc.t.Helper()
	resp, err := sc.operator().Get(within(sc.t), sc.prefix+name+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByCreateRevision, clientv3.SortAscend))
	if err != nil {
		sc.t.Fatal(err)
	}
	var keys []string
	for _, kv := range resp.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// awaitLine waits until n keys stand in a plain name's line, and returns them.
func (sc *scene) awaitLine(name string, n int) (keys []string) {
	sc.t.Helper()
	leaseholdtest.Eventually(sc.t, step, "the line of "+name+" is as long as it should be", func() bool {
		keys = sc.line(name)
		return len(keys) == n
	})
	return keys
}

// exists reports whether a key is there.
func (sc *scene) exists(key string) bool {
	sc.t.Helper()
	resp, err := sc.operator().Get(within(sc.t), key, clientv3.WithCountOnly())
	if err != nil {
		sc.t.Fatal(err)
	}
	return resp.Count > 0
}

// revision is the store's present revision.
func (sc *scene) revision() int64 {
	sc.t.Helper()
	resp, err := sc.operator().Get(within(sc.t), "\x00", clientv3.WithCountOnly())
	if err != nil {
		sc.t.Fatal(err)
	}
	return resp.Header.Revision
}

// within bounds one step of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), step)
	t.Cleanup(cancel)
	return ctx
}

// ended is a context that has ended.
func ended(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// locker is what Session and Client have in common.
type locker interface {
	Lock(ctx context.Context, name string, opts ...leasehold.LockOption) (*leasehold.Grant, error)
	TryLock(ctx context.Context, name string, opts ...leasehold.LockOption) (*leasehold.Grant, error)
}

func mustLock(t testing.TB, l locker, name string) *leasehold.Grant {
	t.Helper()
	g, err := l.Lock(within(t), name)
	if err != nil {
		t.Fatalf("lock %q: %v", name, err)
	}
	return g
}

func mustRelease(t testing.TB, g *leasehold.Grant) {
	t.Helper()
	if err := g.Release(within(t)); err != nil {
		t.Fatal(err)
	}
}

// A result is what a Lock in the background has returned, and when.
type result struct {
	grant *leasehold.Grant
	err   error
	at    time.Time
}

// lockAside locks in the background.
func lockAside(ctx context.Context, l locker, name string) <-chan result {
	done := make(chan result, 1)
	go func() {
		g, err := l.Lock(ctx, name)
		done <- result{g, err, time.Now()}
	}()
	return done
}

// await waits for what comes over a channel, or for its being closed.
func await[T any](t testing.TB, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(step):
		t.Fatalf("%s: not within %v", what, step)
		panic("unreachable")
	}
}

// granted waits for a lock in the background that must succeed.
func granted(t testing.TB, what string, ch <-chan result) *leasehold.Grant {
	t.Helper()
	r := await(t, what, ch)
	if r.err != nil {
		t.Fatalf("%s: %v", what, r.err)
	}
	return r.grant
}

// wantErr fails the test unless err matches all targets.
func wantErr(t testing.TB, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: got %v, want %v", what, err, target)
		}
	}
}

// wantCause fails the test unless the grant has ended for the reason, by every way of asking.
func wantEnded(t testing.TB, g *leasehold.Grant, reason error) {
	t.Helper()
	if g.Valid() {
		t.Errorf("%s is valid, want it ended: %v", g.Key(), reason)
	}
	if left := g.Remaining(); left != 0 {
		t.Errorf("%s: %v remaining after its end", g.Key(), left)
	}
	wantErr(t, "Err", g.Err(), reason)
	await(t, "the grant's context ends", g.Done())
	wantErr(t, "the context's cause", context.Cause(g.Context()), reason)
}

// leaseExists reports whether the server knows a lease.
func (sc *scene) leaseExists(id clientv3.LeaseID) bool {
	sc.t.Helper()
	resp, err := sc.operator().TimeToLive(within(sc.t), id)
	if err != nil {
		sc.t.Fatal(err)
	}
	return resp.TTL > 0
}

// leases returns the leases whose granted term is ttl: all of one test, if it has a term of its own.
func (sc *scene) leases(ttl time.Duration) (found []clientv3.LeaseID) {
	sc.t.Helper()
	resp, err := sc.operator().Leases(within(sc.t))
	if err != nil {
		sc.t.Fatal(err)
	}
	for _, l := range resp.Leases {
		ttlResp, err := sc.operator().TimeToLive(within(sc.t), l.ID)
		if err != nil {
			sc.t.Fatal(err)
		}
		if ttlResp.GrantedTTL == int64(ttl/time.Second) {
			found = append(found, l.ID)
		}
	}
	return found
}
