// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"

	"example.com/leasehold/bench/internal/proc"
)

// The roles of the processes of a cluster.
const (
	MemberRole = "member"
	RelayRole  = "relay"
)

// Roles are the roles of this package, for proc.Run.
var Roles = map[string]proc.Role{MemberRole: member, RelayRole: relay}

type memberArgs struct {
	Name, Dir, Client, Peer, Cluster string
	Fsync                            bool
}

// runningMember is the part of MemberRole.
type runningMember struct{ etcd *embed.Etcd }

func member(ctx context.Context, text json.RawMessage) (proc.Part, error) {
	var args memberArgs
	if err := json.Unmarshal(text, &args); err != nil {
		return nil, err
	}
	client, err := url.Parse(args.Client)
	if err != nil {
		return nil, err
	}
	peer, err := url.Parse(args.Peer)
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig() // with etcd's default ticks and election timeout
	cfg.Name, cfg.Dir = args.Name, args.Dir
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{*client}, []url.URL{*client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{*peer}, []url.URL{*peer}
	cfg.InitialCluster = args.Cluster
	cfg.UnsafeNoFsync = !args.Fsync
	cfg.LogLevel = "panic"
	cfg.LogOutputs = []string{"stderr"}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("start member %s: %w", args.Name, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return runningMember{e}, nil
	case err := <-e.Err():
		return nil, fmt.Errorf("start member %s: %w", args.Name, err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m runningMember) Answer(_ context.Context, verb string, _ json.RawMessage) (any, error) {
	return nil, fmt.Errorf("a member does not know %q", verb)
}

func (m runningMember) Close() error {
	m.etcd.Close()
	return nil
}
