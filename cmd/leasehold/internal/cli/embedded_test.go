// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"strings"
	"testing"
)

// TestEmbedded_IsNeverMistakenForTheClusterThatWasNamed is about jobs that would run "protected" by an etcd of their own.
func TestEmbedded_IsNeverMistakenForTheClusterThatWasNamed(t *testing.T) {
	for _, tt := range []struct{ args, stderr string }{
		{"run a --embedded --endpoints x:1 -- true", "--embedded and --endpoints exclude each other"},
		{"run a --embedded --user root:secret -- true", "--embedded and --user exclude each other"},
		{"lead a me --embedded --cacert ca.pem -- true", "--embedded and --cacert exclude each other"},
		{"list --embedded -d example.com", "--embedded and --discovery-srv exclude each other"},
		{"check --embedded --insecure-transport=false", "--embedded and --insecure-transport exclude each other"},
	} {
		code, out, stderr := run(t, strings.Fields(tt.args)...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, tt.stderr) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit code %d, said %q", tt.args, code, stderr)
		}
	}
}

func TestEmbedded_CountsMoreThanTheEnvironmentAndSaysSo(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "127.0.0.1:1")
	t.Setenv("ETCDCTL_USER", "root:secret")
	t.Setenv("ETCDCTL_CACERT", "/no/such/file")
	t.Setenv("ETCDCTL_DIAL_TIMEOUT", "7s") // says how long, not where
	code, _, stderr := run(t, "run", "a", "--embedded", "--", "true")
	if code != 0 || !strings.Contains(stderr, "not used: ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ETCDCTL_USER\n") {
		t.Errorf("exit code %d, said %q", code, stderr)
	}
}
