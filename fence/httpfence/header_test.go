// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/fence/internal/lists"
)

// post sends a request with these header lines as they are, without a client that would tidy them up, and returns the
// answer.
func post(t *testing.T, server *httptest.Server, lines ...string) *http.Response {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	// The server may answer, and hang up, before it has read a header that is too long.
	_, writeErr := fmt.Fprintf(conn, "POST /?resource=r HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n%s\r\n\r\nv", strings.Join(lines, "\r\n"))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(errors.Join(err, writeErr))
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// counting returns a handler behind the middleware that counts the writes.
func counting(calls *int) (http.Handler, error) {
	l := &lists.Lists{Add: func(context.Context, string) error { *calls++; return nil }}
	return l.FencedHandler(&fence.Gate{})
}

func TestMiddleware_RefusesHeadersThatAreNotOneToken(t *testing.T) {
	calls := 0
	handler, err := counting(&calls)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	const name = httpfence.Header
	for what, test := range map[string]struct {
		lines  []string
		status int
	}{
		"none":                       {[]string{"X: y"}, http.StatusPreconditionRequired},
		"another header of the kind": {[]string{"Leasehold_Token: 7"}, http.StatusPreconditionRequired},
		"a lookalike":                {[]string{"Leasehold-Tоken: 7"}, http.StatusBadRequest}, // a Cyrillic o
		"empty":                      {[]string{name + ":"}, http.StatusBadRequest},
		"duplicates":                 {[]string{name + ": 7", name + ": 8"}, http.StatusBadRequest},
		"duplicates that agree":      {[]string{name + ": 7", name + ": 7"}, http.StatusBadRequest},
		"duplicates in other case":   {[]string{name + ": 7", strings.ToLower(name) + ": 8"}, http.StatusBadRequest},
		"a list":                     {[]string{name + ": 7, 8"}, http.StatusBadRequest},
		"a continuation line":        {[]string{name + ": 7", " 8"}, http.StatusBadRequest},
		"a NUL":                      {[]string{name + ": 7\x00"}, http.StatusBadRequest},
		"a blank before the colon":   {[]string{name + " : 7"}, http.StatusBadRequest},
		"zero":                       {[]string{name + ": 0"}, http.StatusBadRequest},
		"a negative number":          {[]string{name + ": -7"}, http.StatusBadRequest},
		"a sign":                     {[]string{name + ": +7"}, http.StatusBadRequest},
		"leading zeros":              {[]string{name + ": 007"}, http.StatusBadRequest},
		"hexadecimal":                {[]string{name + ": 0x7"}, http.StatusBadRequest},
		"an exponent":                {[]string{name + ": 1e3"}, http.StatusBadRequest},
		"digits of another script":   {[]string{name + ": ٧"}, http.StatusBadRequest},
		"2^63":                       {[]string{name + ": 9223372036854775808"}, http.StatusBadRequest},
		"a kilobyte":                 {[]string{name + ": " + strings.Repeat("9", 1<<10)}, http.StatusBadRequest},
		"four megabytes":             {[]string{name + ": " + strings.Repeat("9", 4<<20)}, http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(what, func(t *testing.T) {
			response := post(t, server, test.lines...)
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
			err := httpfence.CheckResponse(response)
			if response.Header.Get("Content-Type") == httpfence.ContentType && !errors.Is(err, leasehold.ErrStaleToken) {
				t.Errorf("the problem reads as %v, want one that matches leasehold.ErrStaleToken", err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the problem is %d bytes long", len(err.Error()))
			}
		})
	}
	if calls != 0 {
		t.Errorf("the handler ran %d times", calls)
	}
	// Blanks around the value are not part of it (RFC 9110, section 5.5).
	if response := post(t, server, name+": \t7 "); response.StatusCode != http.StatusOK || calls != 1 {
		t.Errorf("a good token: status %d, %d calls", response.StatusCode, calls)
	}
}

// A trailer comes after the check and must not stand in for the header.
func TestMiddleware_TokenInATrailerIsNone(t *testing.T) {
	handler, err := lists.Memory().FencedHandler(&fence.Gate{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/?resource=r", strings.NewReader("v"))
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = -1
	request.Trailer = http.Header{httpfence.Header: {"7"}}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusPreconditionRequired {
		t.Fatalf("status %d, want %d", response.StatusCode, http.StatusPreconditionRequired)
	}
}

func TestMiddleware_AnswersAsTheSpecificationSays(t *testing.T) {
	handler, err := lists.Memory().FencedHandler(&fence.Gate{})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	if response := post(t, server, httpfence.Header+": 9"); response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	response := post(t, server, httpfence.Header+": 8")
	if response.StatusCode != http.StatusPreconditionFailed || response.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status %d of type %q", response.StatusCode, response.Header.Get("Content-Type"))
	}
	var got map[string]any
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for member, want := range map[string]any{
		"type": "https://example.com/leasehold/problems/stale-token", "status": 412.0, "resource": "r", "token": "8", "highest": "9",
	} {
		if got[member] != want {
			t.Errorf("%s is %v, want %v", member, got[member], want)
		}
	}
}

func FuzzTokenFromHeader(f *testing.F) {
	for _, seed := range []string{"1", "0", "-1", "007", "9223372036854775807", "9223372036854775808", "1, 2", "\x00", "٧"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		token, err := httpfence.TokenFromHeader(http.Header{httpfence.Header: {value}})
		if err != nil {
			if !errors.Is(err, httpfence.ErrMalformedToken) || len(err.Error()) > 300 {
				t.Fatalf("%q: %v", value, err)
			}
			return
		}
		if token <= 0 || token.String() != value {
			t.Fatalf("%q was read as %s", value, token)
		}
	})
}
