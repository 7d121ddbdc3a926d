// SPDX-License-Identifier: Apache-2.0

// Package lists is the service that the middlewares are tested with: lists of values, over HTTP and over gRPC.
package lists

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"

	"example.com/leasehold/fence"
	"example.com/leasehold/fence/httpfence"
)

// Lists is what the service keeps.
type Lists struct {
	// Add appends value to the list of the write that was admitted in ctx.
	Add func(ctx context.Context, value string) error
	// Values returns a list.
	Values func(resource string) []string
}

// Memory returns lists that live in this process.
func Memory() *Lists {
	var mu sync.Mutex
	kept := make(map[string][]string)
	return &Lists{
		Add: func(ctx context.Context, value string) error {
			w, ok := fence.WriteFrom(ctx)
			if !ok {
				return errors.New("lists: no admission in the context")
			}
			mu.Lock()
			defer mu.Unlock()
			kept[w.Resource] = append(kept[w.Resource], value)
			return nil
		},
		Values: func(resource string) []string {
			mu.Lock()
			defer mu.Unlock()
			return kept[resource]
		},
	}
}

// ByQuery names the resource of a request to [Lists.Handler].
func ByQuery(r *http.Request) (string, error) { return r.URL.Query().Get("resource"), nil }

// Handler serves the lists without a fence: GET returns the one that the query names, other methods add the body to it.
func (l *Lists) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_ = json.NewEncoder(w).Encode(l.Values(r.URL.Query().Get("resource"))) // the client may have gone
			return
		}
		value, err := io.ReadAll(r.Body)
		if err == nil {
			err = l.Add(r.Context(), string(value))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// FencedHandler is [Lists.Handler] behind the middleware.
func (l *Lists) FencedHandler(guard fence.Guard) (http.Handler, error) {
	middleware, err := httpfence.Middleware(httpfence.Config{Guard: guard, Resource: ByQuery})
	if err != nil {
		return nil, err
	}
	return middleware(l.Handler()), nil
}
