// SPDX-License-Identifier: Apache-2.0

// Package httpfence carries fencing tokens over HTTP and checks them at the server: a [Transport] for the side that holds
// the grant, a [Middleware] for the side that holds the data.
//
// The token travels in one header, [Header]. The server decides which resource a request writes to; the client cannot name
// it. A refusal is a problem document (RFC 9457) with status 412, which [CheckResponse] turns back into the error that it
// came from.
//
// # What makes it atomic
//
// A check in front of a handler is worth nothing if the handler can be overtaken afterwards. So the handler runs inside the
// admission of a [fence.Guard], and the answer is sent when that has been committed. Which guard is right depends on where
// the handler writes:
//
//   - to memory or files of its own: a [fence.Gate];
//   - to a SQL database: the Guard of package sqlfence; the handler writes in the transaction of sqlfence.TxFrom;
//   - to anything that checks tokens itself: hand the token of [fence.WriteFrom] on, and let the resource check it again;
//   - to something else, shared by several servers: a Gate over a mark store, which leaves open the moment between one
//     server's check and another's.
package httpfence

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"example.com/leasehold/fence"
)

// Config tells a middleware what to check. Guard and Resource are needed.
type Config struct {
	// Guard admits the writes.
	Guard fence.Guard
	// Resource names what a request writes to, from its path for example. An error that it returns is answered
	// with 400.
	Resource func(*http.Request) (string, error)
	// Read reports whether a request only reads and passes without a token. Default: GET, HEAD, OPTIONS and TRACE.
	Read func(*http.Request) bool
}

// Middleware returns a function that puts the check in front of a handler.
//
// The handler's answer is held back, in memory, until the write is committed, so that nobody is told of a write that was
// not kept: a handler cannot flush, hijack or stream. An answer of 400 and above, and a panic, discards the write.
func Middleware(config Config) (func(http.Handler) http.Handler, error) {
	if config.Guard == nil || config.Resource == nil {
		return nil, errors.New("httpfence: middleware needs a Guard and a Resource")
	}
	if config.Read == nil {
		config.Read = isSafe
	}
	return func(next http.Handler) http.Handler {
		return &handler{Config: config, next: next}
	}, nil
}

// isSafe reports whether the method is one that asks for no change (RFC 9110, section 9.2.1).
func isSafe(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

type handler struct {
	Config
	next http.Handler
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.Read(r) {
		h.next.ServeHTTP(w, r)
		return
	}
	held := &heldResponse{header: make(http.Header)}
	if err := h.write(held, r); err != nil && !errors.Is(err, errRejected) {
		problemOf(err).write(w)
		return
	}
	held.send(w)
}

// errRejected tells the guard that the handler itself answered with an error.
var errRejected = errors.New("httpfence: the handler answered with an error")

func (h *handler) write(held *heldResponse, r *http.Request) error {
	token, err := TokenFromHeader(r.Header)
	if err != nil {
		return err
	}
	resource, err := h.Resource(r)
	if err != nil {
		if !errors.Is(err, fence.ErrInvalidResource) {
			err = fmt.Errorf("%w: %w", fence.ErrInvalidResource, err)
		}
		return err
	}
	admission, err := h.Guard.Begin(r.Context(), resource, token)
	if err != nil {
		return err
	}
	defer admission.Discard()
	h.next.ServeHTTP(held, r.WithContext(admission.Context()))
	if held.status >= http.StatusBadRequest {
		return errRejected
	}
	return admission.Commit()
}

// heldResponse keeps a handler's answer until it may be sent.
type heldResponse struct {
	header http.Header // the handler's own
	sent   http.Header // what the handler had set when it wrote the status
	status int
	body   bytes.Buffer
}

func (h *heldResponse) Header() http.Header { return h.header }

func (h *heldResponse) WriteHeader(status int) {
	// Of several calls the first one counts, as always; informational answers cannot be held back and are dropped.
	if h.status == 0 && status >= http.StatusOK {
		h.status, h.sent = status, h.header.Clone()
	}
}

func (h *heldResponse) Write(p []byte) (int, error) {
	h.WriteHeader(http.StatusOK)
	return h.body.Write(p)
}

func (h *heldResponse) send(w http.ResponseWriter) {
	h.WriteHeader(http.StatusOK)
	maps.Copy(w.Header(), h.sent)
	w.WriteHeader(h.status)
	_, _ = h.body.WriteTo(w) // the client is gone: nobody is left to tell
}
