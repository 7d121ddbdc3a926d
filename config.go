// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
)

// Config tunes a [Session] or a [Client]. The zero value works; a zero field means its default. [New] and
// [NewSession] refuse values out of bounds with an error that matches [ErrInvalidConfig] and lists every problem.
type Config struct {
	// TTL is the lease's term asked of etcd, rounded up to whole seconds. The server raises a TTL below its
	// minimum of 1.5 election timeouts (2 s on a default cluster); [Session.TTL] tells what was granted.
	// Renewals go out every third of it. Default 15 s; at least 1 s, at most 5 min, because above that
	// a server with lease checkpoints can shorten a term.
	TTL time.Duration

	// DriftBound is rho, the bound on the rate error of each clock, the holder's and the grantor's: the holder
	// takes both halves, d*(1-rho)/(1+rho). Default 1e-3 (kernel time discipline slews by up to 500 ppm, quartz
	// adds 100); at least 1e-6, at most 0.1.
	DriftBound float64

	// Margin is epsilon, the time by which the holder stops earlier than drift alone demands. Default 100 ms; at
	// least 1 ns, at most half the TTL.
	Margin time.Duration

	// Prefix is put before every name's key, as it is. Processes exclude each other only under one prefix. Default, also for
	// an empty one, "leasehold/". "jobs" and "jobs/" are two prefixes. Without "/" at its end, which [New] warns of, names of
	// this prefix and of a longer one can collide. At most 1,024 bytes of valid UTF-8.
	Prefix string

	// Holder is the value of a lock's key, for people and tools that ask who holds it. Default "host:pid". At most
	// 4,096 bytes.
	Holder string

	// Logger receives what an operator may want to know: fail-over, loss, clean-up. Default: nothing is logged.
	Logger *zap.Logger
}

// The defaults and bounds of Config.
const (
	defaultTTL        = 15 * time.Second
	minTTL            = 1 * time.Second
	maxTTL            = 5 * time.Minute
	defaultDriftBound = 1e-3
	minDriftBound     = 1e-6
	maxDriftBound     = 0.1
	defaultMargin     = 100 * time.Millisecond
	defaultPrefix     = "leasehold/"
	maxPrefixBytes    = 1024
	maxHolderBytes    = 4096
)

// withDefaults fills zero fields, or returns every problem of the others, joined.
func (c Config) withDefaults() (Config, error) {
	c.TTL = cmp.Or(c.TTL, defaultTTL)
	c.DriftBound = cmp.Or(c.DriftBound, defaultDriftBound)
	c.Margin = cmp.Or(c.Margin, defaultMargin)
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	if c.Holder == "" {
		c.Holder = defaultHolder()
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if err := c.validate(); err != nil {
		return Config{}, err
	}
	if rest := c.TTL % time.Second; rest != 0 {
		c.TTL += time.Second - rest
	}
	return c, nil
}

func (c Config) validate() error {
	var problems problems
	bad := problems.add
	most := c.TTL / 2 // of the margin
	if c.TTL < minTTL || c.TTL > maxTTL {
		bad("TTL %v: want %v to %v", c.TTL, minTTL, maxTTL)
		most = maxTTL / 2 // only the TTL is to blame
	}
	if math.IsNaN(c.DriftBound) || c.DriftBound < minDriftBound || c.DriftBound > maxDriftBound {
		bad("DriftBound %v: want %v to %v", c.DriftBound, minDriftBound, maxDriftBound)
	}
	if c.Margin < 1 || c.Margin > most {
		bad("Margin %v: want 1ns to half the TTL, %v", c.Margin, most)
	}
	if len(c.Prefix) > maxPrefixBytes {
		bad("Prefix of %d bytes: want at most %d", len(c.Prefix), maxPrefixBytes)
	}
	if !utf8.ValidString(c.Prefix) {
		bad("Prefix %s: want valid UTF-8", quoteBounded(c.Prefix))
	}
	if len(c.Holder) > maxHolderBytes {
		bad("Holder of %d bytes: want at most %d", len(c.Holder), maxHolderBytes)
	}
	return problems.err()
}

// problems are what is wrong with a config, in one line, so that a log shows all of it.
type problems []error

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

// err is nil if there are none.
func (p problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalidConfig, p)
}

func (p problems) Error() string {
	var text strings.Builder
	for i, err := range p {
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(err.Error())
	}
	return text.String()
}

func (p problems) Unwrap() []error { return p }

func defaultHolder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown" // a display value only
	}
	return host + ":" + strconv.Itoa(os.Getpid())
}
