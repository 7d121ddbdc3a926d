// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestConfig_ZeroMeansTheDefaults(t *testing.T) {
	got, err := Config{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if got.TTL != 15*time.Second || got.DriftBound != 1e-3 || got.Margin != 100*time.Millisecond || got.Prefix != "leasehold/" {
		t.Errorf("defaults %+v", got)
	}
	if !strings.HasSuffix(got.Holder, ":"+strconv.Itoa(os.Getpid())) {
		t.Errorf("Holder = %q, want host:pid", got.Holder)
	}
	if got.Logger == nil {
		t.Error("Logger is nil")
	}
}

func TestConfig_KeepsWhatIsSet(t *testing.T) {
	want := Config{
		TTL: 7 * time.Second, DriftBound: 0.01, Margin: time.Second, Prefix: "jobs/", Holder: "me", Logger: zap.NewExample(),
	}
	got, err := want.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// etcd counts terms in seconds. Rounding up keeps what was asked for.
func TestConfig_RoundsTheTTLUpToWholeSeconds(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		time.Second:             time.Second,
		time.Second + 1:         2 * time.Second,
		1500 * time.Millisecond: 2 * time.Second,
		2*time.Second - 1:       2 * time.Second,
		5*time.Minute - 1:       5 * time.Minute,
		5 * time.Minute:         5 * time.Minute,
	} {
		got, err := Config{TTL: in}.withDefaults()
		if err != nil || got.TTL != want {
			t.Errorf("TTL %v: %v, %v; want %v", in, got.TTL, err, want)
		}
	}
}

func TestConfig_Bounds(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		bad  string // what the error names; "" for none
	}{
		{"least TTL", Config{TTL: time.Second}, ""},
		{"TTL below", Config{TTL: time.Second - 1, Margin: 1}, "TTL"},
		{"TTL of a millisecond", Config{TTL: time.Millisecond, Margin: 1}, "TTL"},
		{"negative TTL", Config{TTL: -time.Second, Margin: 1}, "TTL"},
		{"most TTL", Config{TTL: 5 * time.Minute}, ""},
		{"TTL above", Config{TTL: 5*time.Minute + 1}, "TTL"},
		{"endless TTL", Config{TTL: math.MaxInt64}, "TTL"},

		{"least drift", Config{DriftBound: 1e-6}, ""},
		{"drift below", Config{DriftBound: 0.99e-6}, "DriftBound"},
		{"negative drift", Config{DriftBound: -1e-3}, "DriftBound"},
		{"most drift", Config{DriftBound: 0.1}, ""},
		{"drift above", Config{DriftBound: math.Nextafter(0.1, 1)}, "DriftBound"},
		{"drift not a number", Config{DriftBound: math.NaN()}, "DriftBound"},
		{"infinite drift", Config{DriftBound: math.Inf(1)}, "DriftBound"},

		{"least margin", Config{Margin: 1}, ""},
		{"negative margin", Config{Margin: -1}, "Margin"},
		{"margin of half the TTL", Config{TTL: 2 * time.Second, Margin: time.Second}, ""},
		{"margin above half the TTL", Config{TTL: 2 * time.Second, Margin: time.Second + 1}, "Margin"},
		{"margin above half the default TTL", Config{Margin: 7500*time.Millisecond + 1}, "Margin"},

		{"longest prefix", Config{Prefix: strings.Repeat("p", 1024)}, ""},
		{"prefix too long", Config{Prefix: strings.Repeat("p", 1025)}, "Prefix"},
		{"prefix not UTF-8", Config{Prefix: "a\xff/"}, "Prefix"},
		{"prefix without a slash", Config{Prefix: "p"}, ""},

		{"longest holder", Config{Holder: strings.Repeat("h", 4096)}, ""},
		{"holder too long", Config{Holder: strings.Repeat("h", 4097)}, "Holder"},
		{"holder of any bytes", Config{Holder: "\xff\x00"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.cfg.withDefaults()
			if tc.bad == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), tc.bad) {
				t.Errorf("got %v, want ErrInvalidConfig about %s", err, tc.bad)
			}
			if got != (Config{}) {
				t.Errorf("a refused config came back as %+v", got)
			}
			if err != nil && len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestConfig_ListsEveryProblem(t *testing.T) {
	_, err := Config{
		TTL: -1, DriftBound: 2, Margin: time.Hour,
		Prefix: strings.Repeat("p", 2000) + "\xff", Holder: strings.Repeat("h", 5000),
	}.withDefaults()
	if !errors.Is(err, ErrInvalidConfig) {
		t.Fatalf("got %v, want ErrInvalidConfig", err)
	}
	for _, want := range []string{"TTL", "DriftBound", "Margin", "Prefix of 2001 bytes", "valid UTF-8", "Holder"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

// Nothing is started before the config and the client have been looked at.
func TestNew_RefusesABadConfigAndANilClient(t *testing.T) {
	if _, err := New(nil, Config{TTL: 1}); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "TTL") {
		t.Errorf("New with a bad TTL: %v", err)
	}
	if _, err := NewSession(t.Context(), nil, Config{Margin: -1}); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), "Margin") {
		t.Errorf("NewSession with a bad margin: %v", err)
	}
	if _, err := New(nil, Config{}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("New without a client: %v", err)
	}
	if _, err := NewSession(t.Context(), nil, Config{}); !errors.Is(err, ErrInvalidConfig) {
		t.Errorf("NewSession without a client: %v", err)
	}
}

// A log shows the first line of an error; all problems are in it, each with its value and its rule.
func TestConfig_ProblemsAreOneLine(t *testing.T) {
	_, err := (Config{TTL: time.Hour, DriftBound: 1, Margin: -1}).withDefaults()
	const want = "leasehold: invalid config: TTL 1h0m0s: want 1s to 5m0s; DriftBound 1: want 1e-06 to 0.1; Margin -1ns: want 1ns to half the TTL, 2m30s"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	_, err = ElectorConfig{}.withDefaults(Config{TTL: time.Minute, Margin: time.Second, DriftBound: 1e-3})
	if !errors.Is(err, ErrInvalidName) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "; OnStartedLeading is nil") {
		t.Errorf("%v", err)
	}
}

// "jobs" and "jobs/" are two prefixes, which is easy to get wrong, and then nobody excludes anybody.
func TestNew_WarnsOfAPrefixWithoutASlash(t *testing.T) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:1"}}) // nothing is sent
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }() // nothing was opened
	for prefix, warnings := range map[string]int{"": 0, "jobs/": 0, "jobs": 1} {
		core, logs := observer.New(zap.WarnLevel)
		if _, err := New(client, Config{Prefix: prefix, Logger: zap.New(core)}); err != nil {
			t.Fatal(err)
		}
		if n := logs.Len(); n != warnings {
			t.Errorf("prefix %q: %d warnings, want %d", prefix, n, warnings)
		}
	}
}
