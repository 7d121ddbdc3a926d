// SPDX-License-Identifier: Apache-2.0

// Package gcsstore is the store of package objectfence for Google Cloud Storage, over its JSON API and with the standard
// library only. A write is conditional on the object's generation.
package gcsstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"example.com/leasehold/fence/objectfence"
)

// DefaultEndpoint is where Google's storage is.
const DefaultEndpoint = "https://storage.googleapis.com"

// Config tunes a [Store].
type Config struct {
	// Client sends the requests and adds the credentials: one of golang.org/x/oauth2/google, for example. It must
	// not repeat writes by itself. Needed.
	Client *http.Client
	// Bucket is the name of the bucket. Needed.
	Bucket string
	// Endpoint is the address of the service. Default [DefaultEndpoint].
	Endpoint string
}

// Store keeps objects in one bucket. It is safe for concurrent use.
type Store struct{ Config }

var _ objectfence.Store = (*Store)(nil)

// New returns the store of a bucket.
func New(config Config) (*Store, error) {
	if config.Client == nil || config.Bucket == "" {
		return nil, errors.New("gcsstore: want a client and a bucket")
	}
	if config.Endpoint == "" {
		config.Endpoint = DefaultEndpoint
	}
	config.Endpoint = strings.TrimSuffix(config.Endpoint, "/")
	return &Store{config}, nil
}

// resource is what the service says about an object.
type resource struct {
	Name       string            `json:"name,omitempty"`
	Generation string            `json:"generation,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
}

// Head implements [objectfence.Store].
func (s *Store) Head(ctx context.Context, key string) (objectfence.Info, error) {
	body, err := s.get(ctx, key, url.Values{"fields": {"generation,metadata"}})
	if err != nil {
		return objectfence.Info{}, err
	}
	var r resource
	if err := json.Unmarshal(body, &r); err != nil {
		return objectfence.Info{}, fmt.Errorf("gcsstore: head: %w", err)
	}
	if r.Generation == "" {
		return objectfence.Info{}, errors.New("gcsstore: head: no generation in the answer")
	}
	return objectfence.Info{Version: r.Generation, Metadata: r.Metadata}, nil
}

// Read implements [objectfence.Store]. It asks for the metadata and then for the content of that very generation; if the
// object is replaced in between it begins again.
func (s *Store) Read(ctx context.Context, key string) ([]byte, objectfence.Info, error) {
	for {
		info, err := s.Head(ctx, key)
		if err != nil {
			return nil, info, err
		}
		body, err := s.get(ctx, key, url.Values{"alt": {"media"}, "generation": {info.Version}})
		if !errors.Is(err, objectfence.ErrNotExist) {
			return body, info, err
		}
		if err := ctx.Err(); err != nil {
			return nil, info, err
		}
	}
}

func (s *Store) get(ctx context.Context, key string, query url.Values) ([]byte, error) {
	target := s.Endpoint + "/storage/v1/b/" + url.PathEscape(s.Bucket) + "/o/" + url.PathEscape(key) + "?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("gcsstore: %w", err)
	}
	return s.do(request)
}

// Write implements [objectfence.Store].
func (s *Store) Write(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error {
	if version == "" {
		version = "0" // the service's word for "is not there"
	}
	content, contentType, err := related(resource{Name: key, Metadata: metadata}, body)
	if err != nil {
		return fmt.Errorf("gcsstore: %w", err)
	}
	query := url.Values{"uploadType": {"multipart"}, "ifGenerationMatch": {version}}
	target := s.Endpoint + "/upload/storage/v1/b/" + url.PathEscape(s.Bucket) + "/o?" + query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("gcsstore: %w", err)
	}
	request.Header.Set("Content-Type", contentType)
	_, err = s.do(request)
	return err
}

// related puts the description of an object and its content into one body.
func related(description resource, content []byte) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, part := range []struct {
		contentType string
		write       func(io.Writer) error
	}{
		{"application/json", func(w io.Writer) error { return json.NewEncoder(w).Encode(description) }},
		{"application/octet-stream", func(w io.Writer) error { _, err := w.Write(content); return err }},
	} {
		p, err := w.CreatePart(textproto.MIMEHeader{"Content-Type": {part.contentType}})
		if err != nil {
			return nil, "", err
		}
		if err := part.write(p); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), "multipart/related; boundary=" + w.Boundary(), nil
}

// do sends a request and gives the answers of the service the names that package objectfence knows.
func (s *Store) do(request *http.Request) ([]byte, error) {
	response, err := s.Client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("gcsstore: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("gcsstore: read the answer: %w", err)
	}
	switch {
	case response.StatusCode == http.StatusOK:
		return body, nil
	case response.StatusCode == http.StatusPreconditionFailed:
		return nil, fmt.Errorf("gcsstore: %w", objectfence.ErrPrecondition)
	case response.StatusCode == http.StatusNotFound && request.Method == http.MethodGet:
		// Of the bucket, too: then the write that follows says so.
		return nil, fmt.Errorf("gcsstore: %w", objectfence.ErrNotExist)
	}
	return nil, fmt.Errorf("gcsstore: %s %s: status %s: %.200q", request.Method, request.URL.Path, response.Status, body)
}
