// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestAuth_TokensLiveSinceTheirLastUse(t *testing.T) {
	auth := &Auth{Users: map[string]User{"job": {Password: "secret", Prefixes: []string{"jobs/"}}}, TokenTTL: 5 * time.Second}
	inBubble(t, Options{Auth: auth}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t, func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "job", "secret" })
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		for range 5 {
			check(t, "TTL", r.renew(id), 60)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(2 * time.Second)
		r.send(id)
		_, err := r.stream.Recv()
		expects(t, "renewal with an old token", rpctypes.Error(err), rpctypes.ErrInvalidAuthToken)
	})
}

func TestAuth_ExpiredTokensAreReplacedByTheClient(t *testing.T) {
	auth := &Auth{Users: map[string]User{"root": {Password: "secret"}}}
	inBubble(t, Options{Auth: auth}, func(t *testing.T, c *Cluster) {
		cli := c.Client(t, func(cfg *clientv3.Config) { cfg.Username, cfg.Password = "root", "secret" })
		id := mustGrant(t, cli, 60)
		r := renewing(t.Context(), t, cli)
		r.renew(id)
		c.ExpireTokens()
		mustPut(t, cli, "a", "")
		r.send(id)
		_, err := r.stream.Recv()
		expects(t, "renewal with an old token", rpctypes.Error(err), rpctypes.ErrInvalidAuthToken)
	})
}
