// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/leaseholdtest"
)

// roundTripper notes what is sent.
type roundTripper struct{ sent []*http.Request }

func (r *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	r.sent = append(r.sent, request)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: request}, nil
}

// closable tells whether it was closed.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

func TestTransport_SendsTheTokenOfAValidGrantOnly(t *testing.T) {
	cluster := leaseholdtest.Start(t, leaseholdtest.Options{})
	session, err := leasehold.NewSession(t.Context(), cluster.DirectClient(t), leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := session.Lock(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	base := &roundTripper{}
	client := &http.Client{Transport: &httpfence.Transport{Base: base}}
	do := func(header string) (*closable, error) {
		body := &closable{Reader: strings.NewReader("v")}
		request, err := http.NewRequestWithContext(leasehold.NewContext(t.Context(), grant), http.MethodPost, "http://x/", body)
		if err != nil {
			t.Fatal(err)
		}
		if header != "" {
			request.Header.Set(httpfence.Header, header)
		}
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		if got := request.Header.Get(httpfence.Header); got != header {
			t.Errorf("the caller's request was changed: its header is %q", got)
		}
		return body, err
	}

	if _, err := do(""); err != nil {
		t.Fatal(err)
	}
	if len(base.sent) != 1 || base.sent[0].Header.Get(httpfence.Header) != grant.Token().String() {
		t.Fatalf("sent %v, want one request with the token", base.sent)
	}
	if body, err := do("7"); err == nil || !body.closed {
		t.Errorf("a request with a token of its own: error %v, body closed %v", err, body.closed)
	}
	if err := grant.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if body, err := do(""); !errors.Is(err, leasehold.ErrReleased) || !body.closed {
		t.Errorf("after the release: error %v, body closed %v; want leasehold.ErrReleased", err, body.closed)
	}
	if len(base.sent) != 1 {
		t.Errorf("%d requests were sent, want the first only", len(base.sent))
	}
}

func TestTransport_WithoutAGrant(t *testing.T) {
	base := &roundTripper{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&httpfence.Transport{Base: base}).RoundTrip(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, fence.ErrNoGrant) {
		t.Errorf("got %v, want fence.ErrNoGrant", err)
	}
	response, err = (&httpfence.Transport{Base: base, Optional: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if len(base.sent) != 1 || len(base.sent[0].Header.Values(httpfence.Header)) != 0 {
		t.Errorf("sent %v, want the request as it was", base.sent)
	}
}
