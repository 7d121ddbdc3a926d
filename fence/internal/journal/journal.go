// SPDX-License-Identifier: Apache-2.0

// Package journal is a resource that lives in one process and outlives it: lists of values in a file, behind a gate whose
// marks are read back from the same file. It stands for whatever a service keeps behind the middlewares in their tests.
package journal

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// Journal is safe for concurrent use.
type Journal struct {
	// Gate guards the lists; the caller holds an admission of it when it appends.
	Gate fence.Gate

	mu     sync.Mutex
	file   *os.File
	values map[string][]string
}

type entry struct {
	Resource, Value string
	Token           leasehold.Token
}

// Open opens the journal in dir, which may be empty.
func Open(ctx context.Context, dir string) (*Journal, error) {
	path := filepath.Join(dir, "journal")
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	// A line that was not finished was never acknowledged.
	whole := bytes.LastIndexByte(content, '\n') + 1
	j := &Journal{values: make(map[string][]string)}
	lines := bufio.NewScanner(bytes.NewReader(content[:whole]))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("journal %s: %w", path, err)
		}
		// The mark lives where the data lives: the last token of a resource is its mark.
		if err := fence.Do(ctx, &j.Gate, e.Resource, e.Token, func(context.Context) error { return nil }); err != nil {
			return nil, fmt.Errorf("journal %s: %w", path, err)
		}
		j.values[e.Resource] = append(j.values[e.Resource], e.Value)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if j.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	if _, err := j.file.Seek(int64(whole), 0); err != nil {
		return nil, err
	}
	return j, j.file.Truncate(int64(whole))
}

// Append adds value to the list of the write that was admitted in ctx.
func (j *Journal) Append(ctx context.Context, value string) error {
	w, ok := fence.WriteFrom(ctx)
	if !ok {
		return errors.New("journal: append without an admission")
	}
	line, err := json.Marshal(entry{Resource: w.Resource, Value: value, Token: w.Token})
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.Write(append(line, '\n')); err != nil {
		return err
	}
	j.values[w.Resource] = append(j.values[w.Resource], value)
	return nil
}

// Values returns the list of resource.
func (j *Journal) Values(resource string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.values[resource])
}
