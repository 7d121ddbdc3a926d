// SPDX-License-Identifier: Apache-2.0

package etcdflags

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestConfig_RefusesWhatCannotWorkAndNamesItsSource(t *testing.T) {
	garbage := filepath.Join(t.TempDir(), "garbage.pem")
	if err := os.WriteFile(garbage, []byte("no certificate"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ arg, want string }{
		{"--endpoints=", "--endpoints is empty: want host:port"},
		{"--endpoints=http://", `--endpoints "http://": no port: want host:port`},
		{"--endpoints=a:1,b", `--endpoints "b": no port`},
		{"--endpoints=https://a", `--endpoints "https://a": no port`},
		{"--endpoints=a:1, b:2", `--endpoints " b:2": a space around it`},
		{"--endpoints=a:123456", `--endpoints "a:123456": no such port`},
		{"--endpoints=ftp://a:1", `--endpoints "ftp://a:1": a scheme`},
		{"--endpoints=unix://", `--endpoints "unix://": no path`},
		{"--cacert=/does/not/exist", "--cacert: open /does/not/exist:"},
		{"--cacert=" + garbage, "--cacert: " + garbage + ": no certificate"},
		{"--dial-timeout=0s", "--dial-timeout 0s: want a time above zero"},
		{"--command-timeout=-1s", "--command-timeout -1s: want a time above zero"},
		{"--keepalive-time=-1s", "--keepalive-time -1s: want a time"},
	} {
		f, _ := parse(t, tt.arg)
		if _, err := f.Config(nil); !errors.Is(err, ErrFlags) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "etcd flags") {
			t.Errorf("%s: %v, want %q in it", tt.arg, err, tt.want)
		}
		name, value, _ := strings.Cut(tt.arg[2:], "=")
		if value == "" {
			continue // an empty variable is none
		}
		variable := "ETCDCTL_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		t.Setenv(variable, value)
		f, fs := parse(t)
		if err := f.FromEnvironment(fs); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Config(nil); err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(tt.want, "--"+name, variable)) {
			t.Errorf("%s=%s: %v", variable, value, err)
		}
		os.Unsetenv(variable)
	}
}

func TestConfig_AcceptsWhatEtcdctlDoes(t *testing.T) {
	for _, endpoints := range []string{"a:1", ":2379", "[::1]:2379", "http://a:1", "https://a:1,b:2", "http://a:1/", "unix:///run/etcd.sock", "unix://localhost:2379", "unix:etcd.sock", "unixs://etcd.sock", "a:http"} {
		f, _ := parse(t, "--endpoints="+endpoints, "--keepalive-time=0s")
		if _, err := f.Config(nil); err != nil {
			t.Errorf("%s: %v", endpoints, err)
		}
	}
}
