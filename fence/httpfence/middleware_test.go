// SPDX-License-Identifier: Apache-2.0

package httpfence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/leasehold"
	"example.com/leasehold/fence"
	"example.com/leasehold/fence/httpfence"
	"example.com/leasehold/fence/internal/lists"
)

// recordingGuard admits everything and notes how admissions end.
type recordingGuard struct {
	commitErr error
	events    []string
}

func (g *recordingGuard) Begin(ctx context.Context, resource string, token leasehold.Token) (fence.Admission, error) {
	g.events = append(g.events, "begin")
	return &recordedAdmission{g, fence.NewContext(ctx, fence.Write{Resource: resource, Token: token})}, nil
}

type recordedAdmission struct {
	guard *recordingGuard
	ctx   context.Context
}

func (a *recordedAdmission) Context() context.Context { return a.ctx }

func (a *recordedAdmission) Commit() error {
	a.guard.events = append(a.guard.events, "commit")
	return a.guard.commitErr
}

func (a *recordedAdmission) Discard() { a.guard.events = append(a.guard.events, "discard") }

// serve runs one request with token 7 through the middleware.
func serve(t *testing.T, guard *recordingGuard, method string, handler http.HandlerFunc) *httptest.ResponseRecorder {
	t.Helper()
	middleware, err := httpfence.Middleware(httpfence.Config{Guard: guard, Resource: lists.ByQuery})
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), method, "/?resource=r", nil)
	httpfence.SetToken(request.Header, 7)
	recorder := httptest.NewRecorder()
	middleware(handler).ServeHTTP(recorder, request)
	return recorder
}

func (g *recordingGuard) mustHave(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(g.events, " "); got != want {
		t.Errorf("the guard saw %q, want %q", got, want)
	}
}

func TestMiddleware_AnswerWaitsForTheCommit(t *testing.T) {
	guard := &recordingGuard{}
	got := serve(t, guard, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		if write, ok := fence.WriteFrom(r.Context()); !ok || write != (fence.Write{Resource: "r", Token: 7}) {
			t.Errorf("the handler sees %+v, %v", write, ok)
		}
		w.Header().Set("X-Before", "yes")
		w.WriteHeader(http.StatusCreated)
		w.Header().Set("X-After", "too late")
		_, _ = io.WriteString(w, "made")
		guard.events = append(guard.events, "handled")
	})
	if got.Code != http.StatusCreated || got.Body.String() != "made" || got.Header().Get("X-Before") != "yes" || got.Header().Get("X-After") != "" {
		t.Errorf("answer %d %q with %v", got.Code, got.Body, got.Header())
	}
	guard.mustHave(t, "begin handled commit discard")

	guard = &recordingGuard{commitErr: errors.New("disk full in /secret")}
	got = serve(t, guard, http.MethodPost, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Made", "yes")
		_, _ = io.WriteString(w, "made")
	})
	if got.Code != http.StatusServiceUnavailable || got.Header().Get("X-Made") != "" || strings.Contains(got.Body.String(), "made") ||
		strings.Contains(got.Body.String(), "secret") {
		t.Errorf("after a failed commit: answer %d %q with %v", got.Code, got.Body, got.Header())
	}
}

func TestMiddleware_ErrorAndPanicDiscard(t *testing.T) {
	guard := &recordingGuard{}
	got := serve(t, guard, http.MethodPost, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusConflict) })
	if got.Code != http.StatusConflict || strings.TrimSpace(got.Body.String()) != "no" {
		t.Errorf("answer %d %q, want the handler's own", got.Code, got.Body)
	}
	guard.mustHave(t, "begin discard")

	guard = &recordingGuard{}
	func() {
		defer func() {
			if r := recover(); r != http.ErrAbortHandler { // the very value
				t.Errorf("recovered %v", r)
			}
		}()
		serve(t, guard, http.MethodPost, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}()
	guard.mustHave(t, "begin discard")
}

func TestMiddleware_ReadsPassWithoutACheck(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions} {
		guard := &recordingGuard{}
		if got := serve(t, guard, method, func(http.ResponseWriter, *http.Request) {}); got.Code != http.StatusOK {
			t.Errorf("%s: status %d", method, got.Code)
		}
		guard.mustHave(t, "")
	}
	for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPatch, "BREW"} {
		guard := &recordingGuard{}
		serve(t, guard, method, func(http.ResponseWriter, *http.Request) {})
		guard.mustHave(t, "begin commit discard")
	}
}

func TestMiddleware_WantsAGuardAndAResource(t *testing.T) {
	for _, config := range []httpfence.Config{{}, {Guard: &fence.Gate{}}, {Resource: lists.ByQuery}} {
		if _, err := httpfence.Middleware(config); err == nil {
			t.Errorf("%+v was accepted", config)
		}
	}
}

func TestCheckResponse_LeavesOtherAnswersAlone(t *testing.T) {
	for _, test := range []struct{ contentType, body string }{
		{"text/plain", "stale-token"},
		{"application/json", `{"type":"https://example.com/leasehold/problems/stale-token"}`},
		{httpfence.ContentType, `{"type":"about:blank","status":412}`},
	} {
		response := &http.Response{
			StatusCode: http.StatusPreconditionFailed, Header: http.Header{"Content-Type": {test.contentType}}, Body: io.NopCloser(strings.NewReader(test.body)),
		}
		if err := httpfence.CheckResponse(response); err != nil {
			t.Errorf("%s %s: %v", test.contentType, test.body, err)
		}
	}
	// What claims to be ours and cannot be read is an error all the same.
	for _, body := range []string{"", "{", `{"type":"https://example.com/leasehold/problems/stale-token","token":"x","highest":"9"}`} {
		response := &http.Response{StatusCode: 412, Header: http.Header{"Content-Type": {httpfence.ContentType}}, Body: io.NopCloser(strings.NewReader(body))}
		if err := httpfence.CheckResponse(response); err == nil {
			t.Errorf("problem %q was taken for none", body)
		}
	}
}
