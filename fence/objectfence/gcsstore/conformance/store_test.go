// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"example.com/leasehold"
	"example.com/leasehold/fence/fencetest"
	"example.com/leasehold/fence/objectfence"
	"example.com/leasehold/fence/objectfence/gcsstore"
)

const bucket = "fence"

func openStore(t *testing.T) *gcsstore.Store {
	t.Helper()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucket})
	store, err := gcsstore.New(gcsstore.Config{Client: server.HTTPClient(), Bucket: bucket, Endpoint: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestStore_Conformance(t *testing.T) {
	f, err := objectfence.New(openStore(t), objectfence.Config{})
	if err != nil {
		t.Fatal(err)
	}
	update := func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
		return f.Update(ctx, resource, token, func(old []byte) ([]byte, error) {
			pause()
			return append(bytes.Clone(old), value+"\x00"...), nil
		})
	}
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return fencetest.Subject{
			Write: func(ctx context.Context, resource string, token leasehold.Token, value string) error {
				return update(ctx, resource, token, value, func() {})
			},
			// An update that finds another write in between runs its function again; the first run is the one to pause.
			WritePaused: func(ctx context.Context, resource string, token leasehold.Token, value string, pause func()) error {
				return update(ctx, resource, token, value, sync.OnceFunc(pause))
			},
			Values: func(ctx context.Context, resource string) ([]string, error) {
				content, _, err := f.Read(ctx, resource)
				if errors.Is(err, objectfence.ErrNotExist) || len(content) == 0 {
					return nil, nil
				}
				return strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00"), err
			},
		}
	}, fencetest.Options{Writes: 2_000, Resources: 40})
}

func TestStore_SaysWhatIsWrong(t *testing.T) {
	store := openStore(t)
	ctx := t.Context()
	if _, err := store.Head(ctx, "k"); !errors.Is(err, objectfence.ErrNotExist) {
		t.Errorf("head of nothing: got %v, want objectfence.ErrNotExist", err)
	}
	if err := store.Write(ctx, "k", []byte("a"), nil, "17"); !errors.Is(err, objectfence.ErrPrecondition) {
		t.Errorf("write over a version of nothing: got %v, want objectfence.ErrPrecondition", err)
	}
	if err := store.Write(ctx, "k", []byte("a"), map[string]string{"x": "y"}, ""); err != nil {
		t.Fatal(err)
	}
	if err := store.Write(ctx, "k", []byte("b"), nil, ""); !errors.Is(err, objectfence.ErrPrecondition) {
		t.Errorf("first write a second time: got %v, want objectfence.ErrPrecondition", err)
	}
	body, info, err := store.Read(ctx, "k")
	if err != nil || string(body) != "a" || info.Metadata["x"] != "y" {
		t.Errorf("read %q with %v, %v", body, info, err)
	}
	elsewhere, err := gcsstore.New(gcsstore.Config{Client: store.Client, Bucket: "none", Endpoint: store.Endpoint})
	if err != nil {
		t.Fatal(err)
	}
	if err := elsewhere.Write(ctx, "k", nil, nil, ""); err == nil || errors.Is(err, objectfence.ErrPrecondition) {
		t.Errorf("no such bucket: got %v, want another error", err)
	}
	if _, err := gcsstore.New(gcsstore.Config{}); err == nil {
		t.Error("a store without client and bucket was made")
	}
}
