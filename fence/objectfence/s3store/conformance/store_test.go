// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"example.com/leasehold"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/internal/servers"
	"example.com/leasehold/fence/objectfence"
	"example.com/leasehold/fence/objectfence/s3store"
)

const bucket = "fence"

// open starts an S3 server and makes the bucket.
func open(t *testing.T) (*servers.Server, *s3.Client) {
	t.Helper()
	server := servers.S3(t)
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("http://" + server.Addr),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(servers.S3Access, servers.S3Secret, ""),
	})
	if err := server.Await(t.Context(), ready(client)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	return server, client
}

func ready(client *s3.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.ListBuckets(ctx, &s3.ListBucketsInput{})
		return err
	}
}

// hashed is a key for any name: the server keeps objects as files, and not every name is one of a file.
func hashed(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return hex.EncodeToString(sum[:])
}

func newFence(t *testing.T, client *s3.Client) *objectfence.Fence {
	t.Helper()
	store, err := s3store.New(client, bucket)
	if err != nil {
		t.Fatal(err)
	}
	f, err := objectfence.New(store, objectfence.Config{Key: hashed})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func subject(f *objectfence.Fence, restart func(context.Context) error) fencetest.Subject {
	update := func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
		return f.Update(ctx, resource, token, func(old []byte) ([]byte, error) {
			pause()
			return append(bytes.Clone(old), value+"\x00"...), nil
		})
	}
	return fencetest.Subject{
		Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
			return update(ctx, resource, token, value, func() {})
		},
		Values: func(ctx context.Context, resource string) ([]string, error) {
			content, _, err := f.Read(ctx, resource)
			if errors.Is(err, objectfence.ErrNotExist) {
				return nil, nil
			}
			if err != nil || len(content) == 0 {
				return nil, err
			}
			return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00"), nil
		},
		Restart: restart,
	}
}

func TestStore_Conformance(t *testing.T) {
	server, client := open(t)
	f := newFence(t, client)
	restart := func(ctx context.Context) error { return server.Restart(ctx, ready(client)) }
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(f, restart) }, fencetest.Options{Resources: 40})
}
