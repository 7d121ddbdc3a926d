// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"bytes"
	"context"
	"crypto/md5" // what S3 makes its ETags of
	"encoding/hex"
	"maps"
	"strconv"
	"sync"

	"example.com/leasehold/fence/objectfence"
)

// memory is a store in memory. Its versions are hashes of the content, as S3's are, or numbers, as GCS's are.
type memory struct {
	generations bool

	mu      sync.Mutex
	objects map[string]object
	writes  int
	// before, if not nil, is called before each conditional write, without the lock.
	before func()
}

type object struct {
	body []byte
	info objectfence.Info
}

func newMemory(generations bool) *memory {
	return &memory{generations: generations, objects: make(map[string]object)}
}

func (m *memory) Head(_ context.Context, key string) (objectfence.Info, error) {
	_, info, err := m.Read(context.Background(), key)
	return info, err
}

func (m *memory) Read(_ context.Context, key string) ([]byte, objectfence.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[key]
	if !ok {
		return nil, objectfence.Info{}, objectfence.ErrNotExist
	}
	return bytes.Clone(o.body), o.info, nil
}

func (m *memory) Write(_ context.Context, key string, body []byte, metadata map[string]string, version string) error {
	if m.before != nil {
		m.before()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects[key].info.Version != version {
		return objectfence.ErrPrecondition
	}
	m.put(key, body, metadata)
	return nil
}

// put writes without a condition. The lock is held.
func (m *memory) put(key string, body []byte, metadata map[string]string) {
	m.writes++
	sum := md5.Sum(body)
	version := hex.EncodeToString(sum[:])
	if m.generations {
		version = strconv.Itoa(m.writes)
	}
	m.objects[key] = object{bytes.Clone(body), objectfence.Info{Version: version, Metadata: maps.Clone(metadata)}}
}
