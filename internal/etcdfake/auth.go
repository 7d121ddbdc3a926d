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

// userLocked returns who makes the request, nil while authentication is off or if it carries no token.
func (a *authStore) userLocked(ctx context.Context) (*User, error) {
	if a == nil {
		return nil, nil //nolint:nilnil // nobody is told apart
	}
	md, _ := metadata.FromIncomingContext(ctx)
	given := md.Get(rpctypes.TokenFieldNameGRPC)
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // decided by what the request needs
	}
	t := a.tokens[given[0]]
	if t == nil || time.Now().After(t.expires) {
		return nil, rpctypes.ErrGRPCInvalidAuthToken
	}
	t.expires = time.Now().Add(a.conf.TokenTTL)
	u := a.conf.Users[t.user]
	return &u, nil
}

func (a *authStore) permitsLocked(u *User, need access) error {
	switch {
	case a == nil:
		return nil
	case u == nil:
		return rpctypes.ErrGRPCUserEmpty
	case len(u.Prefixes) == 0:
		return nil
	case need.admin:
		return rpctypes.ErrGRPCPermissionDenied
	}
	for _, sp := range need.spans {
		if !u.covers(sp) {
			return rpctypes.ErrGRPCPermissionDenied
		}
	}
	return nil
}

func (u *User) covers(sp span) bool {
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

// access is what a request touches.
type access struct {
	spans []span
	admin bool
}

func readsOf(r *pb.RangeRequest) access { return access{spans: []span{spanOf(r.Key, r.RangeEnd)}} }

func writesOf(r *pb.PutRequest) access { return access{spans: []span{spanOf(r.Key, nil)}} }

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

func accessOf(r *pb.TxnRequest) access {
	var need access
	for _, c := range r.Compare {
		need.spans = append(need.spans, spanOf(c.Key, c.RangeEnd))
	}
	for _, ops := range [][]*pb.RequestOp{r.Success, r.Failure} {
		for _, op := range ops {
			switch o := op.Request.(type) {
			case *pb.RequestOp_RequestRange:
				need.spans = append(need.spans, readsOf(o.RequestRange).spans...)
			case *pb.RequestOp_RequestPut:
				need.spans = append(need.spans, writesOf(o.RequestPut).spans...)
			case *pb.RequestOp_RequestDeleteRange:
				need.spans = append(need.spans, deletesOf(o.RequestDeleteRange).spans...)
			case *pb.RequestOp_RequestTxn:
				need.spans = append(need.spans, accessOf(o.RequestTxn).spans...)
			}
		}
	}
	return need
}

// authenticated refuses requests without a user while authentication is on.
func (c *Cluster) authenticated(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.auth.userLocked(ctx)
	if err != nil {
		return err
	}
	return c.auth.permitsLocked(u, access{})
}

// permitsLease refuses users who may not write every key of a lease.
func (c *Cluster) permitsLease(ctx context.Context, id int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.permitsLeaseLocked(ctx, id)
}

func (c *Cluster) permitsLeaseLocked(ctx context.Context, id int64) error {
	if c.auth == nil {
		return nil
	}
	u, err := c.auth.userLocked(ctx)
	if err != nil {
		return err
	}
	var need access
	if l := c.leases.alive[id]; l != nil {
		for key := range l.keys {
			need.spans = append(need.spans, span{key: key, single: true})
		}
	}
	return c.auth.permitsLocked(u, need)
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
