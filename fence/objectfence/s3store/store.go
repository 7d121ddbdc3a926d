// SPDX-License-Identifier: Apache-2.0

// Package s3store is the store of package objectfence for S3 and what speaks its protocol. It is a module of its own, so that
// the AWS SDK is only in the builds of those who use it.
//
// The server must enforce If-Match and If-None-Match on PutObject, atomically. Amazon S3 does since November 2024; of others,
// ask for it and try it: a server that ignores the headers accepts every write.
package s3store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"example.com/leasehold/fence/objectfence"
)

// Store keeps objects in one bucket. It is safe for concurrent use.
type Store struct {
	client *s3.Client
	bucket string
}

var _ objectfence.Store = (*Store)(nil)

// New returns the store of a bucket.
func New(client *s3.Client, bucket string) (*Store, error) {
	if client == nil || bucket == "" {
		return nil, errors.New("s3store: want a client and a bucket")
	}
	return &Store{client: client, bucket: bucket}, nil
}

// Head implements [objectfence.Store].
func (s *Store) Head(ctx context.Context, key string) (objectfence.Info, error) {
	output, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return objectfence.Info{}, classify("head", err)
	}
	return objectfence.Info{Version: aws.ToString(output.ETag), Metadata: output.Metadata}, nil
}

// Read implements [objectfence.Store].
func (s *Store) Read(ctx context.Context, key string) ([]byte, objectfence.Info, error) {
	output, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	if err != nil {
		return nil, objectfence.Info{}, classify("get", err)
	}
	defer output.Body.Close()
	body, err := io.ReadAll(output.Body)
	if err != nil {
		return nil, objectfence.Info{}, fmt.Errorf("s3store: get: %w", err)
	}
	return body, objectfence.Info{Version: aws.ToString(output.ETag), Metadata: output.Metadata}, nil
}

// Write implements [objectfence.Store].
func (s *Store) Write(ctx context.Context, key string, body []byte, metadata map[string]string, version string) error {
	input := &s3.PutObjectInput{Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(body), Metadata: metadata}
	if version == "" {
		input.IfNoneMatch = aws.String("*")
	} else {
		input.IfMatch = &version
	}
	// Once: if the answer to a write that was made is lost, its repetition fails on the ETag that it has made itself, and
	// that would look like a write of somebody else's.
	_, err := s.client.PutObject(ctx, input, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err != nil {
		return classify("put", err)
	}
	return nil
}

// classify gives the answers of a server the names that package objectfence knows.
func classify(operation string, err error) error {
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "NoSuchKey", "NotFound":
			// For a put with If-Match: the object is gone in between.
			if operation == "put" {
				return fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
			}
			return fmt.Errorf("%w: %w", objectfence.ErrNotExist, err)
		case "PreconditionFailed", "ConditionalRequestConflict":
			return fmt.Errorf("%w: %w", objectfence.ErrPrecondition, err)
		}
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() == http.StatusNotFound && operation != "put" {
		return fmt.Errorf("%w: %w", objectfence.ErrNotExist, err)
	}
	return fmt.Errorf("s3store: %s: %w", operation, err)
}
