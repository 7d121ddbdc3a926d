// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/fence/internal/servers"
)

const term = 5 * time.Second // in which a busy machine makes the holder's writes

// outcome is how a write of the holder's ended, as it travels from its process.
type outcome struct {
	Adapter string
	Error   string
	// Stale is the refusal by token, if it was one.
	Stale *leasehold.StaleTokenError
	// NotRun, Expired: the refusal by the grant's own key, and by the holder's own belief.
	NotRun, Expired bool
}

// holder is the process that is stopped. Its requests: /hold takes the lock, /late writes through every adapter without a
// look at the grant, /careful through every adapter with the grant in the context.
type holder struct {
	grant *leasehold.Grant
	*resources
}

// serveHolder is the role of that process.
func serveHolder(addr, _ string) error {
	h := &holder{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hold", func(w http.ResponseWriter, r *http.Request) {
		var a addresses
		if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := h.hold(context.WithoutCancel(r.Context()), a); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprint(w, h.grant.Token())
	})
	mux.HandleFunc("POST /late", func(w http.ResponseWriter, r *http.Request) {
		h.write(w, r, func(a adapter, value string) error { return a.late(r.Context(), h.grant, value) })
	})
	mux.HandleFunc("POST /careful", func(w http.ResponseWriter, r *http.Request) {
		ctx := leasehold.NewContext(r.Context(), h.grant)
		h.write(w, r, func(a adapter, value string) error { return a.granted(ctx, value) })
	})
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return http.Serve(listener, mux)
}

func (h *holder) hold(ctx context.Context, a addresses) error {
	var err error
	if h.resources, err = connect(ctx, a); err != nil {
		return err
	}
	session, err := leasehold.NewSession(ctx, h.etcd, leasehold.Config{TTL: term})
	if err != nil {
		return err
	}
	h.grant, err = session.Lock(ctx, resource)
	return err
}

// write writes the query's value through every adapter and answers with the outcomes.
func (h *holder) write(w http.ResponseWriter, r *http.Request, write func(adapter, string) error) {
	var outcomes []outcome
	for _, a := range h.adapters {
		o := outcome{Adapter: a.name}
		if err := write(a, r.URL.Query().Get("value")); err != nil {
			o.Error = err.Error()
			errors.As(err, &o.Stale)
			o.NotRun = errors.Is(err, errNotRun)
			o.Expired = errors.Is(err, leasehold.ErrExpired) || errors.Is(err, leasehold.ErrRevoked)
		}
		outcomes = append(outcomes, o)
	}
	_ = json.NewEncoder(w).Encode(outcomes)
}

// ask sends a request to the holder's process.
func ask(t *testing.T, server *servers.Server, path, body string, out any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+server.Addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %s", path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
}

// A holder is stopped past its term, its successor takes over and writes, the holder wakes up in the middle of its writes:
// every resource refuses them and keeps what the successor wrote.
func TestStoppedHolder_IsRefusedByEveryAdapter(t *testing.T) {
	a := start(t)
	here, err := connect(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := here.close(); err != nil {
			t.Error(err)
		}
	})
	defer http.DefaultClient.CloseIdleConnections()
	old := servers.Self(t, holderRole)
	where, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var oldToken leasehold.Token
	ask(t, old, "/hold", string(where), &oldToken)
	var outcomes []outcome
	ask(t, old, "/careful?value=old", "", &outcomes)
	for _, o := range outcomes {
		if o.Error != "" {
			t.Fatalf("%s: the holder's write in its term: %s", o.Adapter, o.Error)
		}
	}

	if err := old.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	session, err := leasehold.NewSession(t.Context(), here.etcd, leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := session.Lock(t.Context(), resource) // returns when the old term is over
	if err != nil {
		t.Fatal(err)
	}
	ctx := leasehold.NewContext(t.Context(), grant)
	for _, adapter := range here.adapters {
		if value, err := adapter.last(ctx); err != nil || value != "old" {
			t.Errorf("%s holds %q, %v; want the old holder's value", adapter.name, value, err)
		}
		if err := adapter.granted(ctx, "new"); err != nil {
			t.Fatalf("%s: the successor's write: %v", adapter.name, err)
		}
	}
	if err := old.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}

	ask(t, old, "/late?value=late", "", &outcomes)
	if len(outcomes) != len(here.adapters) {
		t.Fatalf("%d outcomes of %d adapters", len(outcomes), len(here.adapters))
	}
	for _, o := range outcomes {
		t.Logf("%-32s %s", o.Adapter, o.Error)
		if !o.NotRun && (o.Stale == nil || o.Stale.Token != oldToken || o.Stale.Highest != grant.Token()) {
			t.Errorf("%s: the late write ended with %q, want a refusal of %s by %s", o.Adapter, o.Error, oldToken, grant.Token())
		}
	}
	ask(t, old, "/careful?value=late", "", &outcomes)
	for _, o := range outcomes {
		if !o.Expired {
			t.Errorf("%s: the late write with the grant ended with %q, want the loss of the grant", o.Adapter, o.Error)
		}
	}
	for _, adapter := range here.adapters {
		if value, err := adapter.last(ctx); err != nil || value != "new" {
			t.Errorf("%s holds %q, %v; want the successor's value", adapter.name, value, err)
		}
	}
}
