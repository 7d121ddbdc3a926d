// SPDX-License-Identifier: Apache-2.0

// Package lines reads who holds and who waits, for people. It trusts nothing: keys that others have put under the
// prefix are shown with what is wrong with them.
package lines

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/leasehold"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Place is one key in a line. The first one holds, or leads.
type Place struct {
	Key    string
	Value  string // as it is in etcd
	Holder string // who stands there: the value, without what this command adds to it
	Since  time.Time
	Token  leasehold.Token
	Lease  clientv3.LeaseID // 0: none

	// Left and TTL are the lease's, once [FillLeases] has asked for them. A lease that has ended has Left below zero.
	Left, TTL time.Duration

	// Problem says what is wrong with the key; empty: nothing.
	Problem string
}

// Line is everybody who holds or waits for a name, in order.
type Line struct {
	Name   string
	Places []Place
}

// Listing is the lines under a prefix at one revision.
type Listing struct {
	Revision int64
	Lines    []Line  // in the order of their names
	Strays   []Place // keys under the prefix that stand in no line
}

// page is how many keys are asked for at once: values may be large, and a request of etcd's is not unbounded.
const page = 2000

// Read reads the lines of all names that begin with namePrefix.
func Read(ctx context.Context, c *clientv3.Client, prefix, namePrefix string) (Listing, error) {
	return read(ctx, c, prefix, Below(prefix, namePrefix))
}

// ReadOne reads the line of one name. An empty line is no error.
func ReadOne(ctx context.Context, c *clientv3.Client, prefix, name string) (Line, int64, error) {
	l, err := read(ctx, c, prefix, Dir(prefix, name))
	if err != nil || len(l.Lines) == 0 {
		return Line{Name: name}, l.Revision, err
	}
	return l.Lines[0], l.Revision, nil
}

func read(ctx context.Context, c *clientv3.Client, prefix, from string) (Listing, error) {
	var l Listing
	byName := make(map[string][]Place)
	key, end := from, clientv3.GetPrefixRangeEnd(from)
	if from == "" {
		key, end = "\x00", "\x00" // everything
	}
	for {
		opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(page)}
		if l.Revision != 0 {
			opts = append(opts, clientv3.WithRev(l.Revision)) // all pages show one moment
		}
		resp, err := c.Get(ctx, key, opts...)
		if err != nil {
			return Listing{}, fmt.Errorf("read the keys below %q: %w", from, err)
		}
		if l.Revision == 0 {
			l.Revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			name, place, ok := Parse(prefix, kv)
			if ok {
				byName[name] = append(byName[name], place)
			} else {
				l.Strays = append(l.Strays, place)
			}
		}
		if !resp.More || len(resp.Kvs) == 0 {
			break
		}
		key = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
	for name, places := range byName {
		slices.SortFunc(places, func(a, b Place) int { return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Key, b.Key)) })
		l.Lines = append(l.Lines, Line{name, places})
	}
	slices.SortFunc(l.Lines, func(a, b Line) int { return cmp.Compare(a.Name, b.Name) })
	return l, nil
}

// Parse tells whose place a key is. A key that stands in no line is returned with ok false.
func Parse(prefix string, kv *mvccpb.KeyValue) (name string, p Place, ok bool) {
	p = Place{
		Key: string(kv.GetKey()), Value: string(kv.GetValue()),
		Token: leasehold.Token(kv.GetCreateRevision()), Lease: clientv3.LeaseID(kv.GetLease()),
	}
	p.Holder, p.Since = ParseHolder(p.Value)
	dir, suffix, ok := strings.Cut(strings.TrimPrefix(p.Key, prefix), "/")
	if !ok {
		p.Problem = "stands in no line: it is not below a name"
		return "", p, false
	}
	p.Problem = problem(suffix, p.Lease)
	return unescape(dir), p, true
}

// problem looks at what follows the name: a lease in hex and, if it is ours, a dash and a sequence in hex. etcd's own
// locks and elections have the lease alone.
func problem(suffix string, lease clientv3.LeaseID) string {
	inKey, sequence, ours := strings.Cut(suffix, "-")
	id, err := strconv.ParseInt(inKey, 16, 64)
	if err == nil && ours {
		_, err = strconv.ParseUint(sequence, 16, 64)
	}
	switch {
	case lease == 0 && err != nil:
		return "not a lock's key, and without a lease: it blocks the name until somebody deletes it"
	case lease == 0:
		return "its lease was taken from it: it blocks the name until somebody deletes it"
	case err != nil:
		return "not a lock's key: somebody else has put it here"
	case clientv3.LeaseID(id) != lease:
		return fmt.Sprintf("hangs on another lease than its own: %x", int64(lease))
	}
	return ""
}
