// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/internal/lists"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/redisfence"
)

// The middleware over marks in Redis. (Marks in memory, in etcd and in SQL databases are tested in the modules of
// httpfence and sqlfence.)
func TestMiddleware_ConformanceWithMarksInRedis(t *testing.T) {
	server := servers.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	ready := func(ctx context.Context) error { return client.Ping(ctx).Err() }
	if err := server.Await(t.Context(), ready); err != nil {
		t.Fatal(err)
	}
	marks, err := redisfence.New(client, redisfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := lists.Memory().FencedHandler(&fence.Gate{Marks: marks})
	if err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(handler)
	t.Cleanup(service.Close)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(transport.CloseIdleConnections)
	remote := &httpLists{service.URL, &http.Client{Transport: transport}}
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return fencetest.Subject{
			Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
				if token == 0 {
					token = -1 // a request without a token is another test's
				}
				_, err := remote.call(ctx, http.MethodPost, "/", resource, token, value)
				return err
			},
			Values: func(ctx context.Context, resource string) ([]string, error) {
				body, err := remote.call(ctx, http.MethodGet, "/", resource, 0, "")
				if err != nil {
					return nil, err
				}
				var values []string
				return values, json.Unmarshal(body, &values)
			},
			Restart: func(ctx context.Context) error { return server.Restart(ctx, ready) },
		}
	}, fencetest.Options{Writes: 2_000})
}
