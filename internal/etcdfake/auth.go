// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/metadata"
)

// Auth is who may do what. Only passwords and prefixes are modelled; users and roles cannot be changed by clients.
type Auth struct {
	// Users by name.
	Users map[string]User
	// TokenTTL is how long a token lives after its last use; 5m if zero.
	TokenTTL time.Duration
}

// User is one user. One without prefixes may do everything, as root.
type User struct {
	Password string
	Prefixes []string
}

// authStore checks requests; a nil one permits everything. Guarded by the cluster's mutex.
type authStore struct {
	conf   Auth
	tokens map[string]*token
	count  int
}

type token struct {
	user    string
	expires time.Time
}

func newAuthStore(conf *Auth) *authStore {
	if conf == nil {
		return nil
	}
	a := &authStore{conf: *conf, tokens: make(map[string]*token)}
	if a.conf.TokenTTL == 0 {
		a.conf.TokenTTL = 5 * time.Minute
	}
	return a
}

// identity is who makes a request: nobody, if it carries no token, which is enough while authentication is off.
type identity struct {
	known bool
	User
}

func (a *authStore) userLocked(ctx context.Context) (identity, error) {
	if a == nil {
		return identity{}, nil
	}
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get(rpctypes.TokenFieldNameGRPC)
	if len(given) == 0 {
		return identity{}, nil
	}
	t := a.tokens[given[0]]
	if t == nil || time.Now().After(t.expires) {
		return identity{}, rpctypes.ErrGRPCInvalidAuthToken
	}
	t.expires = time.Now().Add(a.conf.TokenTTL)
	return identity{true, a.conf.Users[t.user]}, nil
}

// permitsLocked refuses what a request may not touch. Without authentication everything may be.
func (c *Cluster) permitsLocked(who identity, need access) error {
	switch {
	case c.auth == nil:
		return nil
	case !who.known:
		return rpctypes.ErrGRPCUserEmpty
	case len(who.Prefixes) == 0:
		return nil
	case need.admin:
		return rpctypes.ErrGRPCPermissionDenied
	}
	for _, id := range need.leases {
		if l := c.leases.alive[id]; l != nil {
			for key := range l.keys {
				need.spans = append(need.spans, span{key: key, single: true})
			}
		}
	}
	for _, sp := range need.spans {
		if !who.covers(sp) {
			return rpctypes.ErrGRPCPermissionDenied
		}
	}
	return nil
}

func (u User) covers(sp span) bool {
	for _, p := range u.Prefixes {
		all := prefixSpan(p)
		if all.contains(sp.key) && (sp.single || all.open || !sp.open && sp.end <= all.end) {
			return true
		}
	}
	return false
}

// prefixSpan is the range of all keys with a prefix.
func prefixSpan(prefix string) span {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return span{key: prefix, end: string(end[:i+1])}
		}
	}
	return span{key: prefix, open: true}
}

// access is what a request touches: ranges, every key of some leases, or what is only an administrator's.
type access struct {
	spans  []span
	leases []int64
	admin  bool
}

func readsOf(r *pb.RangeRequest) access { return access{spans: []span{spanOf(r.Key, r.RangeEnd)}} }

// writesOf counts the other keys of the lease in: who may not revoke a lease may not put a key under it.
func writesOf(r *pb.PutRequest) access {
	return access{spans: []span{spanOf(r.Key, nil)}, leases: []int64{r.Lease}}
}

func deletesOf(r *pb.DeleteRangeRequest) access {
	return access{spans: []span{spanOf(r.Key, r.RangeEnd)}}
}

func watchesOf(r *pb.WatchCreateRequest) access {
	key := r.Key
	if len(key) == 0 {
		key = []byte{0}
	}
	return access{spans: []span{spanOf(key, r.RangeEnd)}}
}

func (a *access) add(o access) {
	a.spans = append(a.spans, o.spans...)
	a.leases = append(a.leases, o.leases...)
}

func accessOf(r *pb.TxnRequest) access {
	var need access
	for _, c := range r.Compare {
		need.spans = append(need.spans, spanOf(c.Key, c.RangeEnd))
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			switch o := op.Request.(type) {
			case *pb.RequestOp_RequestRange:
				need.add(readsOf(o.RequestRange))
			case *pb.RequestOp_RequestPut:
				need.add(writesOf(o.RequestPut))
			case *pb.RequestOp_RequestDeleteRange:
				need.add(deletesOf(o.RequestDeleteRange))
			case *pb.RequestOp_RequestTxn:
				need.add(accessOf(o.RequestTxn))
			}
		}
	}
	return need
}

// authorized refuses a request of somebody unknown, or who may not touch what it needs.
func (c *Cluster) authorized(ctx context.Context, need access) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	who, err := c.auth.userLocked(ctx)
	if err != nil {
		return err
	}
	return c.permitsLocked(who, need)
}

type authServer struct {
	pb.UnimplementedAuthServer
	m *Member
}

func (s *authServer) Authenticate(_ context.Context, r *pb.AuthenticateRequest) (*pb.AuthenticateResponse, error) {
	c := s.m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.auth
	if a == nil {
		return nil, rpctypes.ErrGRPCAuthNotEnabled
	}
	u, ok := a.conf.Users[r.Name]
	if !ok || u.Password != r.Password {
		return nil, rpctypes.ErrGRPCAuthFailed
	}
	a.count++
	name := fmt.Sprintf("token.%d", a.count)
	a.tokens[name] = &token{user: r.Name, expires: time.Now().Add(a.conf.TokenTTL)}
	return &pb.AuthenticateResponse{Header: s.m.headerLocked(s.m.revLocked()), Token: name}, nil
}

// ExpireTokens makes every token given out so far invalid.
func (c *Cluster) ExpireTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.auth != nil {
		clear(c.auth.tokens)
	}
}
