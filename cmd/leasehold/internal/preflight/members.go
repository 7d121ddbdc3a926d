// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// trips is how many round trips are measured to each endpoint.
const trips = 20

// members asks every endpoint for itself, at once.
func (c *checker) members(ctx context.Context) {
	c.Members = make([]Member, len(c.Config.Endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range c.Config.Endpoints {
		wg.Go(func() { c.Members[i] = c.member(ctx, endpoint) })
	}
	wg.Wait()
	leaders := 0
	for _, m := range c.Members {
		if m.Error != "" {
			c.add(Failure, m.Endpoint, "does not answer: "+m.Error)
			continue
		}
		role := "follows"
		if m.Leads {
			role, leaders = "leads", leaders+1
		}
		c.add(OK, m.Endpoint, fmt.Sprintf("etcd %s, member %s, %s; round trip %s (the median of %d tries; the slowest took %s)", m.Version, m.ID, role,
			m.Median.Round(10*time.Microsecond), trips, m.Worst.Round(10*time.Microsecond)))
		if why := flaw(m.Version); why != "" {
			c.add(Warning, m.Endpoint, why)
		}
	}
}

func (c *checker) member(ctx context.Context, endpoint string) Member {
	m := Member{Endpoint: endpoint}
	cfg := c.Config
	cfg.Endpoints, cfg.Context = []string{endpoint}, ctx
	etcd, err := clientv3.New(cfg)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	defer etcd.Close()
	status, err := c.status(ctx, etcd, endpoint)
	if err != nil {
		m.Error = err.Error()
		return m
	}
	m.ID = fmt.Sprintf("%x", status.Header.MemberId)
	m.Version = status.Version
	m.Leads = status.Leader != 0 && status.Leader == status.Header.MemberId
	if status.Leader == 0 {
		m.Error = "it knows no leader"
		return m
	}
	var all []time.Duration
	for range trips {
		start := time.Now()
		if _, err := c.status(ctx, etcd, endpoint); err != nil {
			m.Error = err.Error()
			return m
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	m.Median, m.Worst = all[len(all)/2], all[len(all)-1]
	return m
}

func (c *checker) status(ctx context.Context, etcd *clientv3.Client, endpoint string) (*clientv3.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Step)
	defer cancel()
	return etcd.Status(ctx, endpoint)
}

// flaw names what is known to be wrong with leases in a version, or returns nothing.
func flaw(version string) string {
	v, ok := parseVersion(version)
	switch {
	case !ok:
		return "its version is none that is known"
	case v.before(3, 4, 31), v.minor == 5 && v.before(3, 5, 13):
		return "below 3.4.31 and 3.5.13 a former leader that is stuck can acknowledge renewals that do not count: update etcd"
	case v.minor == 5 && v.before(3, 5, 23), v.minor == 6 && v.before(3, 6, 5), v.before(3, 5, 0):
		return "below 3.5.23 and 3.6.5 a renewal can be acknowledged for a lease that was just revoked; leasehold discards such answers, other clients may not: update etcd"
	}
	return ""
}

type version struct{ major, minor, patch int }

func (v version) before(major, minor, patch int) bool {
	return slices.Compare([]int{v.major, v.minor, v.patch}, []int{major, minor, patch}) < 0
}

func parseVersion(s string) (v version, ok bool) {
	release, _, _ := strings.Cut(s, "-")
	parts := strings.Split(release, ".")
	if len(parts) != 3 {
		return version{}, false
	}
	for i, part := range []*int{&v.major, &v.minor, &v.patch} {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return version{}, false
		}
		*part = n
	}
	return v, true
}

// proxy looks for an etcd gRPC proxy in between: it answers renewals on its own schedule, so that an answer says nothing
// about when its request was sent, on which every local expiry is built.
func (c *checker) proxy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, c.Step)
	defer cancel()
	list, err := c.Client.MemberList(ctx)
	if err == nil && slices.ContainsFunc(list.Members, func(m *pb.Member) bool { return m.GetID() == 0 }) {
		c.add(Failure, "proxy", "an etcd gRPC proxy is in between: it answers renewals on its own schedule, so that no local expiry is safe. Connect to the members themselves")
		return
	}
	answers, err := c.renewOnce(ctx)
	switch {
	case err != nil:
		c.add(Failure, "renewal", "a lease could not be renewed: "+err.Error())
	case answers != 1:
		c.add(Failure, "proxy", fmt.Sprintf("one renewal was answered %d times: something in between answers by itself, so that no local expiry is safe", answers))
	default:
		c.add(OK, "proxy", "none in between: each renewal gets its own answer")
	}
}

// renewOnce sends one renewal and counts the answers within the time in which a proxy would have sent another one.
func (c *checker) renewOnce(ctx context.Context) (answers int, err error) {
	grant, err := c.Client.Grant(ctx, int64(c.TTL/time.Second))
	if err != nil {
		return 0, err
	}
	defer func() { _, _ = c.Client.Revoke(context.WithoutCancel(ctx), grant.ID) }() // it ends by itself otherwise
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(c.Client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(grant.ID)}); err != nil {
		return 0, err
	}
	received := make(chan error, 1)
	go func() {
		for {
			_, err := stream.Recv()
			select {
			case received <- err:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	if err := <-received; err != nil {
		return 0, err
	}
	more := time.NewTimer(1200 * time.Millisecond)
	defer more.Stop()
	for answers = 1; ; answers++ {
		select {
		case err := <-received:
			if err != nil {
				return answers, err
			}
		case <-more.C:
			return answers, nil
		}
	}
}
