// SPDX-License-Identifier: Apache-2.0

package leaseholdtest

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/crypto/bcrypt"
)

// Options describes a cluster. The zero value is one member with short ticks, quiet and without fsync.
// [Start] and [StartCluster] refuse values out of bounds and list every problem.
type Options struct {
	// Members is the size of the cluster: 1, 3 or 5. Default 1.
	Members int

	// Heartbeat is the interval of raft's ticks, in whole milliseconds. Default 20 ms for one member, 66 ms for
	// several.
	Heartbeat time.Duration

	// Election is raft's election timeout, in whole milliseconds; at least five heartbeats, which etcd demands,
	// at most 50 s. The smallest TTL that etcd grants is 1.5 election timeouts, rounded up to seconds. The
	// defaults, 200 ms for one member and 660 ms for several, grant a TTL of 1 s.
	Election time.Duration

	// QuotaBytes is the size at which a member's database raises the no-space alarm. Default: etcd's 2 GiB.
	// [Cluster.RaiseNoSpace] raises the alarm without filling anything.
	QuotaBytes int64

	// AuthTokenTTL is the life of an unused login of a client under authentication, in whole seconds, at least 1 s.
	// Default: etcd's 5 min.
	AuthTokenTTL time.Duration

	// Fsync makes the members flush their logs to the disk as they do in production. Off by default: a test's
	// data need not survive the machine, and members that share one disk slow each other down.
	Fsync bool

	// Dir is the directory under which the cluster makes its own, which Close removes. Default: the directory
	// for temporary files.
	Dir string

	// Logger receives what the members and the clients log. Default: nothing but the last words of a member
	// that takes the process with it.
	Logger *zap.Logger

	// Configure, if set, may change the configuration of the member with the given index before each of its
	// starts. It must leave the name, the directory, the URLs, the socket options and the peers' TLS alone. It
	// may be called from several goroutines at once.
	Configure func(member int, cfg *embed.Config)
}

// The largest election timeout that etcd accepts.
const maxElection = 50 * time.Second

// withDefaults fills zero fields, or returns every problem of the others, joined.
func (o Options) withDefaults() (Options, error) {
	o.Members = cmp.Or(o.Members, 1)
	if o.Members == 1 {
		o.Heartbeat = cmp.Or(o.Heartbeat, 20*time.Millisecond)
		o.Election = cmp.Or(o.Election, 10*o.Heartbeat)
	} else {
		// 15 ticks of 66 ms are 990 ms, just below the second that a TTL of 1 s allows: the calmest elections that
		// still grant it, for members that share two busy cores with a race detector.
		o.Heartbeat = cmp.Or(o.Heartbeat, 66*time.Millisecond)
		o.Election = cmp.Or(o.Election, 10*o.Heartbeat)
	}
	if o.Logger == nil {
		o.Logger = lastWords()
	}
	return o, o.validate()
}

func (o Options) validate() error {
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if o.Members != 1 && o.Members != 3 && o.Members != 5 {
		bad("Members %d: want 1, 3 or 5", o.Members)
	}
	if o.Heartbeat < time.Millisecond || o.Heartbeat%time.Millisecond != 0 {
		bad("Heartbeat %v: want whole milliseconds", o.Heartbeat)
	}
	if o.Election < 5*o.Heartbeat || o.Election > maxElection || o.Election%time.Millisecond != 0 {
		bad("Election %v: want five heartbeats, %v, to %v in whole milliseconds", o.Election, 5*o.Heartbeat, maxElection)
	}
	if o.QuotaBytes < 0 {
		bad("QuotaBytes %d: want none or more", o.QuotaBytes)
	}
	if o.AuthTokenTTL < 0 || o.AuthTokenTTL%time.Second != 0 {
		bad("AuthTokenTTL %v: want whole seconds", o.AuthTokenTTL)
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("leaseholdtest: invalid options: %w", errors.Join(problems...))
}

// embedConfig is what all members of the cluster have in common.
func (o Options) embedConfig() *embed.Config {
	cfg := embed.NewConfig()
	cfg.TickMs = uint(o.Heartbeat.Milliseconds())
	cfg.ElectionMs = uint(o.Election.Milliseconds())
	cfg.UnsafeNoFsync = !o.Fsync
	cfg.QuotaBackendBytes = o.QuotaBytes
	if o.AuthTokenTTL > 0 {
		cfg.AuthTokenTTL = uint(o.AuthTokenTTL / time.Second)
	}
	cfg.BcryptCost = uint(bcrypt.MinCost) // a login in a test need not take 100 ms
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(o.Logger)
	cfg.EnableGRPCGateway = false // a client of itself in every member, which nobody here talks to
	return cfg
}

// lastWords is a logger that is silent until a member calls its Fatal, which ends the process: a silent end would be
// a riddle.
func lastWords() *zap.Logger {
	stderr, _, err := zap.Open("stderr")
	if err != nil {
		return zap.NewNop() // stderr is closed: nobody could read it
	}
	text := zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())
	return zap.New(zapcore.NewCore(text, stderr, zapcore.FatalLevel))
}
