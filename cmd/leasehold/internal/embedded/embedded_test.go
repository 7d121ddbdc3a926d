// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func client(t *testing.T, s *Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestStart_DataDirectoryKeepsWhatWasWritten(t *testing.T) {
	ctx, dir := within(t), filepath.Join(t.TempDir(), "data")
	for run := range 2 {
		s, err := Start(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, s)
		if run == 0 {
			_, err = c.Put(ctx, "k", "v")
		} else if resp, gerr := c.Get(ctx, "k"); gerr != nil || len(resp.Kvs) != 1 {
			err = errors.Join(gerr, errors.New("the key is gone"))
		}
		if err := errors.Join(err, c.Close(), s.Close()); err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
	}
}

func TestStart_ASecondOneInTheSameDirectorySaysWhereTheFirstIs(t *testing.T) {
	ctx, dir := within(t), t.TempDir()
	s, err := Start(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = Start(ctx, dir)
	if inUse, ok := errors.AsType[*InUseError](err); !ok || inUse.Endpoint != s.Endpoint() {
		t.Errorf("got %v, want the endpoint %s", err, s.Endpoint())
	}
}

func TestClose_RemovesTheTemporaryDirectory(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s, err := Start(within(t), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(tmp + "/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
