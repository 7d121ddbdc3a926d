// SPDX-License-Identifier: Apache-2.0

package etcdflags

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func parse(t *testing.T, args ...string) (*Flags, *pflag.FlagSet) {
	t.Helper()
	f, fs := new(Flags), pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f, fs
}

func TestFromEnvironment_FillsWhatNoFlagHasSet(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "a:1,b:2")
	t.Setenv("ETCDCTL_DIAL_TIMEOUT", "3s")
	t.Setenv("ETCDCTL_USER", "root:secret")
	t.Setenv("ETCDCTL_CACERT", "")
	t.Setenv("ETCDCTL_API", "3") // known to every old script, and no flag
	f, fs := parse(t, "--dial-timeout=7s")
	if err := f.FromEnvironment(fs); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Endpoints, []string{"a:1", "b:2"}) || f.DialTimeout != 7*time.Second || f.User != "root:secret" || f.caCert != "" {
		t.Errorf("%+v", f)
	}
}

func TestFromEnvironment_NamesTheVariableThatItCannotRead(t *testing.T) {
	t.Setenv("ETCDCTL_DIAL_TIMEOUT", "soon")
	f, fs := parse(t)
	if err := f.FromEnvironment(fs); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), "ETCDCTL_DIAL_TIMEOUT") {
		t.Errorf("got %v", err)
	}
}

func TestConfig_Credentials(t *testing.T) {
	asked := func(string) (string, error) { return "typed", nil }
	for _, tt := range []struct {
		args           []string
		ask            func(string) (string, error)
		user, password string
		bad            bool
	}{
		{args: nil},
		{args: []string{"--user=u:p:q"}, user: "u", password: "p:q"},
		{args: []string{"--user=u", "--password=p"}, user: "u", password: "p"},
		{args: []string{"--user=u"}, ask: asked, user: "u", password: "typed"},
		{args: []string{"--user=u"}, bad: true},
		{args: []string{"--user=u:p", "--password=p"}, bad: true},
		{args: []string{"--password=p"}, bad: true},
	} {
		f, _ := parse(t, tt.args...)
		cfg, err := f.Config(tt.ask)
		if tt.bad {
			if !errors.Is(err, ErrFlags) {
				t.Errorf("%q: %v, want ErrFlags", tt.args, err)
			}
			continue
		}
		if err != nil || cfg.Username != tt.user || cfg.Password != tt.password {
			t.Errorf("%q: %q, %q, %v", tt.args, cfg.Username, cfg.Password, err)
		}
	}
}

func TestConfig_AsksForThePasswordOnce(t *testing.T) {
	f, _ := parse(t, "--user=u")
	times := 0
	for range 2 {
		cfg, err := f.Config(func(string) (string, error) { times++; return "typed", nil })
		if err != nil || cfg.Password != "typed" {
			t.Fatal(cfg.Password, err)
		}
	}
	if times != 1 {
		t.Errorf("asked %d times", times)
	}
}

func TestConfig_TLSWhereTheFlagsOrTheEndpointsSaySo(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		secure bool
	}{
		{nil, false},
		{[]string{"--endpoints=http://a:1"}, false},
		{[]string{"--endpoints=https://a:1"}, true},
		{[]string{"--insecure-transport=false"}, true},
	} {
		f, _ := parse(t, tt.args...)
		cfg, err := f.Config(nil)
		if err != nil || (cfg.TLS != nil) != tt.secure {
			t.Errorf("%q: TLS %v, %v", tt.args, cfg.TLS != nil, err)
		}
	}
	f, _ := parse(t, "--cert=x")
	if _, err := f.Config(nil); !errors.Is(err, ErrFlags) {
		t.Errorf("--cert alone: %v", err)
	}
	f, _ = parse(t, "--cacert=/does/not/exist")
	if _, err := f.Config(nil); err == nil {
		t.Error("a CA bundle that does not exist is accepted")
	}
}

func TestDiagnose_TellsARefusalFromASilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, _ := parse(t, "--endpoints=http://"+l.Addr().String()+",127.0.0.1:1")
	got := f.Diagnose(t.Context())
	if !strings.Contains(got, "accepts connections") || !strings.Contains(got, "refused") {
		t.Errorf("%s", got)
	}
}
