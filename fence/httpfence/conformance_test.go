// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/etcdfence"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/fence/internal/journal"
	"example.com/leasehold/fence/internal/lists"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/internal/servers/etcdserver"
)

func TestMain(m *testing.M) {
	servers.Main(map[string]servers.Role{
		"HTTP server with a journal": serveJournal,
		etcdserver.Role:              etcdserver.Serve,
	})
	os.Exit(m.Run())
}

// serveJournal is the server that is killed in between: its lists and marks are in a file.
func serveJournal(addr, dir string) error {
	j, err := journal.Open(context.Background(), dir)
	if err != nil {
		return err
	}
	handler, err := (&lists.Lists{Add: j.Append, Values: j.Values}).FencedHandler(&j.Gate)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(listener, handler)
}

// httpSubject writes to the list handler at base.
func httpSubject(client *http.Client, base string, restart func(context.Context) error) fencetest.Subject {
	target := func(resource string) string { return base + "/?" + url.Values{"resource": {resource}}.Encode() }
	post := func(ctx context.Context, resource string, token leasehold.Token, body io.Reader, expect string) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, target(resource), body)
		if err != nil {
			return err
		}
		httpfence.SetToken(request.Header, token)
		if expect != "" {
			request.Header.Set("Expect", expect)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := httpfence.CheckResponse(response); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		return nil
	}
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return post(ctx, resource, token, strings.NewReader(value), "")
		},
		// The server asks for the body when the handler reads it, which is after the check.
		WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
			return post(ctx, resource, token, &pausingReader{Reader: strings.NewReader(value), pause: sync.OnceFunc(pause)}, "100-continue")
		},
		Values: func(ctx context.Context, resource string) ([]string, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, target(resource), nil)
			if err != nil {
				return nil, err
			}
			response, err := client.Do(request)
			if err != nil {
				return nil, err
			}
			defer response.Body.Close()
			var values []string
			return values, json.NewDecoder(response.Body).Decode(&values)
		},
		Restart: restart,
	}
}

type pausingReader struct {
	io.Reader
	pause func()
}

func (r *pausingReader) Read(p []byte) (int, error) {
	r.pause()
	return r.Reader.Read(p)
}

func newClient(t *testing.T) *http.Client {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout = time.Hour
	transport.MaxIdleConnsPerHost = 16
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestMiddleware_ConformanceWithAKilledServer(t *testing.T) {
	server := servers.Self(t, "HTTP server with a journal")
	client := newClient(t)
	restart := func(ctx context.Context) error {
		return server.Restart(ctx, func(context.Context) error { return nil })
	}
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return httpSubject(client, "http://"+server.Addr, restart)
	}, fencetest.Options{})
}

func TestMiddleware_ConformanceWithMarksInEtcd(t *testing.T) {
	_, etcd := etcdserver.Start(t)
	marks, err := etcdfence.New(etcd, etcdfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := lists.Memory().FencedHandler(&fence.Gate{Marks: marks})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	client := newClient(t)
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return httpSubject(client, server.URL, nil)
	}, fencetest.Options{Writes: 2_000})
}
