// SPDX-License-Identifier: Apache-2.0

package etcdflags

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Diagnose says for each endpoint what a plain connection meets: a client that ran into its deadline only knows that it
// did. It takes at most a second.
func (f *Flags) Diagnose(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found := make([]string, len(f.Endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range f.Endpoints {
		wg.Go(func() { found[i] = endpoint + ": " + diagnose(ctx, endpoint) })
	}
	wg.Wait()
	return strings.Join(found, "; ")
}

func diagnose(ctx context.Context, endpoint string) string {
	network, address := "tcp", endpoint
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		address = u.Host
		if strings.HasPrefix(u.Scheme, "unix") {
			network, address = "unix", u.Host+u.Path
		}
	} else if path, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		network, address = "unix", path
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		_ = conn.Close() // nothing was sent
		return "accepts connections but did not answer in time (no leader, or TLS on one side only?)"
	}
	if ctx.Err() != nil {
		return "no answer to a connection attempt"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return fmt.Sprint(op.Err)
	}
	return err.Error()
}
