// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/redisfence"
)

// open starts a server. Its client repeats nothing, because the tests append.
func open(t *testing.T) (*servers.Server, *redis.Client) {
	t.Helper()
	server := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	if err := server.Await(t.Context(), ready(client)); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func ready(client redis.UniversalClient) func(context.Context) error {
	return func(ctx context.Context) error { return client.Ping(ctx).Err() }
}

func newFence(t *testing.T, client redis.Scripter, config redisfence.Config) *redisfence.Fence {
	t.Helper()
	f, err := redisfence.New(client, config)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func subject(f *redisfence.Fence, client redis.UniversalClient, restart func(context.Context) error) fencetest.Subject {
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			_, err := f.Do(ctx, resource, token, redisfence.Command{"RPUSH", redisfence.Key(f.DataKey(resource, "list")), value})
			return err
		},
		Values: func(ctx context.Context, resource string) ([]string, error) {
			return client.LRange(ctx, f.DataKey(resource, "list"), 0, -1).Result()
		},
		Restart: restart,
	}
}

func TestFence_Conformance(t *testing.T) {
	server, client := open(t)
	f := newFence(t, client, redisfence.Config{})
	restart := func(ctx context.Context) error { return server.Restart(ctx, ready(client)) }
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(f, client, restart) }, fencetest.Options{})
}

func TestFence_ConformanceOnACluster(t *testing.T) {
	cluster := openCluster(t)
	f := newFence(t, cluster, redisfence.Config{})
	options := fencetest.Options{Writes: 2_000, Resources: 12}
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(f, cluster, nil) }, options)

	// Keys of two slots cannot be one step, and the cluster says so before anything is done.
	_, err := f.Do(t.Context(), "a", 1, redisfence.Command{"SET", redisfence.Key("{b}:x"), "1"})
	if err == nil || errors.Is(err, leasehold.ErrStaleToken) {
		t.Fatalf("a key of another slot: got %v, want the cluster's refusal", err)
	}
	tagged := newFence(t, cluster, redisfence.Config{Prefix: "tagged:", Tag: func(string) string { return "b" }})
	if _, err := tagged.Do(t.Context(), "a", 1, redisfence.Command{"SET", redisfence.Key("{b}:x"), "1"}); err != nil {
		t.Fatalf("a mark in the slot of the caller's tag: %v", err)
	}
}

// openCluster makes a cluster of three nodes with a third of the slots each.
func openCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	const nodes, slots = 3, 16384
	var addrs []string
	var first *redis.Client
	for i := range nodes {
		server, busPort := servers.RedisNode(t)
		client := redis.NewClient(&redis.Options{Addr: server.Addr})
		t.Cleanup(func() { _ = client.Close() })
		if err := server.Await(t.Context(), ready(client)); err != nil {
			t.Fatal(err)
		}
		if err := client.ClusterAddSlotsRange(t.Context(), i*slots/nodes, (i+1)*slots/nodes-1).Err(); err != nil {
			t.Fatal(err)
		}
		// Epochs of their own, so that the nodes have nothing to settle when they meet.
		if err := client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, server.Addr)
		if i == 0 {
			first = client
			continue
		}
		host, port := server.Host()
		if err := first.Do(t.Context(), "CLUSTER", "MEET", host, port, busPort).Err(); err != nil {
			t.Fatal(err)
		}
		if err := server.Await(t.Context(), knows(client, i+1)); err != nil {
			t.Fatal(err)
		}
		if err := server.Await(t.Context(), knows(first, i+1)); err != nil {
			t.Fatal(err)
		}
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	t.Cleanup(func() { _ = cluster.Close() })
	every := func(ctx context.Context) error {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			info, err := node.ClusterInfo(ctx).Result()
			if err == nil && !strings.Contains(info, "cluster_state:ok") {
				err = errors.New(info)
			}
			return errors.Join(err, knows(node, nodes)(ctx))
		})
	}
	if err := (&servers.Server{Name: "the cluster"}).Await(t.Context(), every); err != nil {
		t.Fatal(err)
	}
	return cluster
}

// knows returns a function that returns nil once a node knows so many that own slots.
func knows(client *redis.Client, nodes int) func(context.Context) error {
	return func(ctx context.Context) error {
		shards, err := client.ClusterShards(ctx).Result()
		if err != nil {
			return err
		}
		owners := slices.DeleteFunc(shards, func(s redis.ClusterShard) bool { return len(s.Slots) == 0 })
		if len(owners) != nodes {
			return fmt.Errorf("%d nodes own slots, want %d", len(owners), nodes)
		}
		return nil
	}
}

// What the package says that Redis does not promise: replication is asynchronous, and a replica that takes over knows only
// what it has received.
func TestFailover_LosesTheMarksThatTheReplicaHadNotReceived(t *testing.T) {
	_, primary := open(t)
	server, replica := open(t)
	old, promoted := newFence(t, primary, redisfence.Config{}), newFence(t, replica, redisfence.Config{})
	if err := old.Raise(t.Context(), "r", 5); err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(primary.Options().Addr, ":")
	if err := replica.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
	received := func(ctx context.Context) error { return replica.Get(ctx, promoted.MarkKey("r")).Err() }
	if err := server.Await(t.Context(), received); err != nil {
		t.Fatal(err)
	}
	// The replica is promoted while the primary still answers: what it answers from now on is lost.
	if err := replica.ReplicaOf(t.Context(), "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	if err := old.Raise(t.Context(), "r", 9); err != nil {
		t.Fatal(err)
	}
	if err := promoted.Raise(t.Context(), "r", 4); !errors.Is(err, leasehold.ErrStaleToken) {
		t.Errorf("below the mark that was received: got %v, want leasehold.ErrStaleToken", err)
	}
	if err := promoted.Raise(t.Context(), "r", 6); err != nil {
		t.Errorf("below the mark that was lost: got %v; if this is refused now, the documentation is wrong", err)
	}
}

func TestFence_AnswersOfTheCommandsComeBack(t *testing.T) {
	_, client := open(t)
	f := newFence(t, client, redisfence.Config{})
	key := redisfence.Key(f.DataKey("r", "x"))
	got, err := f.Do(t.Context(), "r", 5,
		redisfence.Command{"GET", key}, redisfence.Command{"SET", key, 41}, redisfence.Command{"INCR", key}, redisfence.Command{"GET", key})
	if err != nil {
		t.Fatal(err)
	}
	if want := []any{nil, "OK", int64(42), "42"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestFence_CorruptMarkIsNotARefusal(t *testing.T) {
	_, client := open(t)
	f := newFence(t, client, redisfence.Config{})
	for _, corrupt := range []string{"", "0", "-1", "007", "x", "9223372036854775808", "99999999999999999999", "1e3", "1\n"} {
		if err := client.Set(t.Context(), f.MarkKey("r"), corrupt, 0).Err(); err != nil {
			t.Fatal(err)
		}
		err := f.Raise(t.Context(), "r", 5)
		if !errors.Is(err, redisfence.ErrCorruptMark) || errors.Is(err, leasehold.ErrStaleToken) {
			t.Errorf("mark %q: got %v, want redisfence.ErrCorruptMark", corrupt, err)
		}
	}
}

func TestFence_RefusesWhatItCannotFence(t *testing.T) {
	_, client := open(t)
	f := newFence(t, client, redisfence.Config{})
	if _, err := f.Do(t.Context(), "r", 5, redisfence.Command{}); err == nil {
		t.Error("a command without words was accepted")
	}
	if _, err := f.Do(t.Context(), "r", 5, redisfence.Command{"DEL", redisfence.Key(f.MarkKey("r"))}); err == nil {
		t.Error("a command that writes to the mark was accepted")
	}
	if _, err := f.DoGrant(t.Context(), "r"); !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("without a grant: got %v, want fence.ErrNoGrant", err)
	}
	for _, tag := range []string{"", "a}b", "{"} {
		tagged := newFence(t, client, redisfence.Config{Tag: func(string) string { return tag }})
		if err := tagged.Raise(t.Context(), "r", 5); !errors.Is(err, fence.ErrInvalidResource) {
			t.Errorf("hash tag %q: got %v, want fence.ErrInvalidResource", tag, err)
		}
	}
	if _, err := redisfence.New(client, redisfence.Config{Prefix: "{x}"}); err == nil {
		t.Error("a prefix with a hash tag was accepted")
	}
	if got := client.DBSize(t.Context()).Val(); got != 0 {
		t.Errorf("%d keys after refusals only, want none", got)
	}
}
