// SPDX-License-Identifier: Apache-2.0

// Package redisfence fences writes to Redis through go-redis. The check of the token and the commands that it admits are one
// script, and one round trip.
//
//	fences, err := redisfence.New(client, redisfence.Config{})
//	...
//	key := redisfence.Key(fences.DataKey("orders", "state"))
//	_, err = fences.DoGrant(ctx, "orders", redisfence.Command{"SET", key, "open"}) // the grant is in ctx
//
// # What Redis does not promise
//
// The marks live and die with the data. What an append-only file that is synced every second loses with the machine, and
// what a replica that takes over had not received yet, it loses of the marks too: then a token that was too old may
// pass, until the holder of a higher one writes again. WAIT narrows that and does not close it. A fence in Redis is as good
// as the Redis that it guards, and must not guard anything else. Marks do not expire; a server that evicts keys
// without an expiry (maxmemory-policy allkeys-*) forgets them.
//
// A script is not rolled back: if one of the commands fails, the ones before it and the mark stay. Arguments that can fail,
// such as a key of another type, are the caller's to avoid.
//
// go-redis repeats a request whose answer was lost, up to three times by default, and a cluster client always may. With
// commands that must not run twice, use MaxRetries: -1.
package redisfence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"example.com/leasehold"
	"example.com/leasehold/fence"
)

// DefaultPrefix is what the keys of marks begin with unless Config says otherwise.
const DefaultPrefix = "leasehold:mark:"

// ErrCorruptMark reports that the key of a mark holds something else. Nothing was changed.
var ErrCorruptMark = errors.New("redisfence: the mark's key does not hold a token")

// Config tunes a [Fence]. The zero value works.
type Config struct {
	// Prefix is what the keys of marks begin with. Default [DefaultPrefix]; valid UTF-8 without braces. All writers of a
	// resource use the same one.
	Prefix string
	// Tag returns the hash tag of the caller's keys for a resource, without braces, so that the mark is in their slot
	// of a cluster. Default: the name of the resource itself, as [Fence.DataKey] writes it.
	Tag func(resource string) string
}

// Fence keeps marks in Redis, next to the data that they guard. It implements [fence.Marks]. A Fence is safe for concurrent
// use.
type Fence struct {
	client redis.Scripter
	prefix string
	tag    func(resource string) string
}

// New returns a fence for writes through client: of a single server, of a cluster, or of sentinels.
func New(client redis.Scripter, config Config) (*Fence, error) {
	if client == nil {
		return nil, errors.New("redisfence: no Redis client")
	}
	prefix := config.Prefix
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if len(prefix) > 1024 || !utf8.ValidString(prefix) || strings.ContainsAny(prefix, "{}") {
		return nil, fmt.Errorf("redisfence: prefix %.100q: want at most 1024 bytes of valid UTF-8 without braces", prefix)
	}
	return &Fence{client: client, prefix: prefix, tag: config.Tag}, nil
}

// tagEscaper keeps braces out of a hash tag: the first closing one would end it.
var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// MarkKey returns the key of the mark of resource. Its value is the token in decimal. Writes to it that do not come from
// this package break the fence; deleting it forgets the mark.
func (f *Fence) MarkKey(resource string) string {
	if f.tag == nil {
		return f.prefix + "{" + tagEscaper.Replace(resource) + "}"
	}
	return f.prefix + "{" + f.tag(resource) + "}" + resource
}

// DataKey returns a key for data of resource that is in the slot of its mark: "{resource}:name", unless Config.Tag says
// otherwise.
func (f *Fence) DataKey(resource, name string) string {
	if f.tag == nil {
		return "{" + tagEscaper.Replace(resource) + "}:" + name
	}
	return "{" + f.tag(resource) + "}:" + name
}

// Key marks the arguments of a [Command] that are keys.
type Key string

// Command is one command of Redis, its name first. Its keys are given as [Key], so that a cluster knows where it goes:
//
//	redisfence.Command{"HSET", redisfence.Key("{orders}:1"), "state", "open"}
type Command []any

// Raise admits token for resource without a command of the caller's. Errors are those of [Fence.Do].
func (f *Fence) Raise(ctx context.Context, resource string, token leasehold.Token) error {
	_, err := f.Do(ctx, resource, token)
	return err
}

// DoGrant is [Fence.Do] with the token of the grant in ctx. Without a valid grant there, nothing is sent and the error is
// that of [fence.TokenFrom].
func (f *Fence) DoGrant(ctx context.Context, resource string, commands ...Command) ([]any, error) {
	token, err := fence.TokenFrom(ctx)
	if err != nil {
		return nil, err
	}
	return f.Do(ctx, resource, token, commands...)
}

// Do runs the commands, in order and as one step with the check of token, and returns their answers. In a cluster, all
// their keys must be in the slot of the mark; see [Fence.DataKey]. A refused token is a [*leasehold.StaleTokenError], and no
// command was run. Any other error of the request leaves the outcome unknown.
func (f *Fence) Do(ctx context.Context, resource string, token leasehold.Token, commands ...Command) ([]any, error) {
	write := fence.Write{Resource: resource, Token: token}
	if err := write.Validate(); err != nil {
		return nil, err
	}
	keys, args, err := f.arguments(write, commands)
	if err != nil {
		return nil, err
	}
	answer, err := script.Run(ctx, f.client, keys, args...).Slice()
	if err != nil {
		return nil, fmt.Errorf("redisfence: write to %q with token %s, outcome unknown: %w", resource, token, err)
	}
	return verdict(write, f.MarkKey(resource), answer)
}
