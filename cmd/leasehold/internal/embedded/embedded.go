// SPDX-License-Identifier: Apache-2.0

// Package embedded runs an etcd of one member inside this process, on loopback, for trying things out. It protects
// nothing beyond this machine, and ends with this process.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Server is a running etcd. Close it. Its methods must not be called at the same time.
type Server struct {
	etcd *embed.Etcd
	lock *fileutil.LockedFile
	dir  string // to be removed; empty if it is the user's
}

// InUseError says that another process runs an etcd in the data directory.
type InUseError struct {
	Dir      string
	Endpoint string // of that etcd, where it is known
}

func (e *InUseError) Error() string {
	if e.Endpoint == "" {
		return fmt.Sprintf("another process runs an etcd in %s", e.Dir)
	}
	return fmt.Sprintf("another process runs an etcd in %s; reach it with --endpoints %s", e.Dir, e.Endpoint)
}

// Start starts an etcd with its data in dir, or without a dir in a temporary one that Close removes, and waits until it
// serves. ctx bounds the start only.
func Start(ctx context.Context, dir string) (_ *Server, err error) {
	s := new(Server)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	temporary := dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "leasehold-etcd-"); err != nil {
			return nil, err
		}
		s.dir = dir
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	// Between choosing a port and listening on it somebody else can take it.
	for range 5 {
		s.etcd, err = launch(dir, temporary)
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case err := <-s.etcd.Err():
		return nil, fmt.Errorf("start etcd in %s: %w", dir, err)
	case <-ctx.Done():
		return nil, fmt.Errorf("start etcd in %s: %w", dir, context.Cause(ctx))
	}
	_, err = s.lock.WriteString(s.Endpoint())
	return s, err
}

// lock claims the directory. etcd itself would wait, without a word and without end, until the other one has ended.
func lock(dir string) (*fileutil.LockedFile, error) {
	path := filepath.Join(dir, "leasehold.lock")
	f, err := fileutil.TryLockFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		endpoint := ""
		if text, err := os.ReadFile(path); err == nil {
			endpoint = strings.TrimSpace(string(text))
		}
		return nil, &InUseError{dir, endpoint}
	}
	if err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, errors.Join(err, f.Truncate(0)) // of its predecessor's endpoint
}

func launch(dir string, temporary bool) (*embed.Etcd, error) {
	client, err := freeURL()
	if err != nil {
		return nil, err
	}
	peer, err := freeURL()
	if err != nil {
		return nil, err
	}
	cfg := embed.NewConfig()
	cfg.Name = "leasehold"
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.UnsafeNoFsync = temporary
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return embed.StartEtcd(cfg)
}

func freeURL() (url.URL, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return url.URL{}, err
	}
	return url.URL{Scheme: "http", Host: l.Addr().String()}, l.Close()
}

// Endpoint is the client URL.
func (s *Server) Endpoint() string { return s.etcd.Config().ListenClientUrls[0].String() }

// Close stops etcd, gives the directory up and removes it if it is temporary. Clients should be closed before.
func (s *Server) Close() error {
	if s.etcd != nil {
		s.etcd.Close()
	}
	var errs []error
	if s.lock != nil {
		errs = append(errs, s.lock.Truncate(0), s.lock.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	s.etcd, s.lock, s.dir = nil, nil, ""
	return errors.Join(errs...)
}
