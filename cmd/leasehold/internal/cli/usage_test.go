// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"errors"
	"strings"
	"testing"

	sdk "example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/lines"
)

// TestUsage_SaysWhatIsWantedBeforeAnythingElse calls commands wrongly where nothing else could work either: nothing listens, and
// an etcd of the command's own would announce itself.
func TestUsage_SaysWhatIsWantedBeforeAnythingElse(t *testing.T) {
	t.Setenv("ETCDCTL_ENDPOINTS", "127.0.0.1:1")
	long := strings.Repeat("x", 10_000)
	for _, tt := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"leader"}, "want a name (usage: leasehold leader NAME"},
		{[]string{"show"}, "want a name (usage: leasehold show NAME"},
		{[]string{"release", "--token", "1"}, "want a name (usage: leasehold release NAME"},
		{[]string{"leader", "a", "b"}, "want one name, not 2 arguments (usage:"},
		{[]string{"list", "a", "b"}, "want one prefix of names at most, not 2 arguments (usage:"},
		{[]string{"watch", "a", "b", "c"}, "want one prefix of names at most, not 3 arguments (usage:"},
		{[]string{"version", "extra"}, `want no arguments, not "extra" (usage: leasehold version`},
		{[]string{"demo", "extra"}, `want no arguments, not "extra" (usage:`},
		{[]string{"check", "extra"}, `want no arguments, not "extra" (usage:`},
		{[]string{"completion", "csh"}, `want bash, fish, powershell or zsh, not "csh" (usage: leasehold completion`},
		{[]string{"completion", "bash", "extra"}, `want no arguments, not "extra" (usage:`},
		{[]string{"help", "extra"}, `unknown command "extra"`},
		{[]string{"run", "", "--embedded", "--", "true"}, "the name is empty"},
		{[]string{"leader", "", "--embedded"}, "the name is empty"},
		{[]string{"show", "", "--embedded"}, "the name is empty"},
		{[]string{"release", "", "--token", "1", "--embedded"}, "the name is empty"},
		{[]string{"run", long, "--embedded", "--", "true"}, "the name has 10000 bytes: want 1024 at most"},
		{[]string{"lead", long, "me", "--embedded", "--", "true"}, "the name has 10000 bytes: want 1024 at most"},
		{[]string{"leader", long, "--embedded"}, "the name has 10000 bytes: want 1024 at most"},
		{[]string{"run", "\xff", "--embedded", "--", "true"}, "is not UTF-8"},
		{[]string{"run", "a", "--holder", long, "--embedded", "--", "true"}, "--holder of 10000 bytes: want 1024 at most"},
		{[]string{"list", "--prefix", "", "--embedded"}, "--prefix is empty: want what the keys of all names begin with, leasehold/ for one"},
		{[]string{"run", "a", "--prefix", long, "--embedded", "--", "true"}, "--prefix of 10000 bytes: want 1024 at most"},
		{[]string{"list", "--prefix", "\xff", "--embedded"}, `--prefix "\xff": want UTF-8`},
		{[]string{"run", "a", "--wait", "0s", "--", "true"}, "--wait 0s: want a time above zero; --try does not wait"},
		{[]string{"run", "a", "--max-hold", "-1s", "--", "true"}, "--max-hold -1s: want a time above zero"},
		{[]string{"lead", "a", "me", "--max-hold", "-1s", "--", "true"}, "--max-hold -1s: want a time above zero"},
		{[]string{"check", "--ttl", "1ms"}, "--ttl 1ms: want 1s to 5m\n"},
		{[]string{"check", "--measure", "2h"}, "--measure 2h0m0s: want 0s to 1h\n"},
		{[]string{"check", "--margin", "0s"}, "--margin 0s: want 1ns to half of the TTL, 7.5s\n"},
		{[]string{"check", "--drift", "2"}, "--drift 2: want 1e-06 to 0.1\n"},
	} {
		code, out, stderr := run(t, tt.args...)
		if code != exitUsage || out != "" || !strings.Contains(stderr, tt.stderr) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%.80q: exit code %d, said %.300q, want %q in it (%.80s)", tt.args, code, stderr, tt.stderr, out)
		}
	}
}

func TestCheckName_RefusesWhatTheSDKRefuses(t *testing.T) {
	c := cluster(t)
	client, err := sdk.New(c.DirectClient(t), sdk.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "a", "/", "a/b", "\x00", "\xff", "a\xffb", "ä", strings.Repeat("x", 1024), strings.Repeat("x", 1025), strings.Repeat("ä", 513)} {
		_, err := client.Election(name).Leader(t.Context())
		if refused := errors.Is(err, sdk.ErrInvalidName); refused != (lines.CheckName(name) != nil) {
			t.Errorf("%.20q: %v here, %v by the SDK", name, lines.CheckName(name), err)
		}
	}
}
