// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
)

func TestRun_ExitCodes(t *testing.T) {
	c := cluster(t)
	lock(t, c, "taken")
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string // a part of it; empty: nothing at all
	}{
		{[]string{"run", "a", "--", "true"}, 0, ""},
		{[]string{"run", "a", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"run", "a", "--shell", "--", "exit 8; true"}, 8, ""},
		{[]string{"run", "a", "--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{[]string{"run", "a", "--", "sh", "-c", "kill -KILL $$"}, 128 + 9, ""},
		{[]string{"run", "a", "--", "no-such-command"}, exitNotFound, "no-such-command"},
		{[]string{"run", "a", "--", "/no/such/command"}, exitNotFound, "/no/such/command"},
		{[]string{"run", "a", "--", plain}, exitNotExec, "permission denied"},
		{[]string{"run", "taken", "--try", "--", "true"}, exitBusy, "held by the test"},
		{[]string{"run", "taken", "--wait", "2s", "--", "true"}, exitTimeout, "not free within 2s: held by the test"},
		{[]string{"run", "a", "--max-hold", "300ms", "--", "sleep", "60"}, exitMaxHold, "--max-hold is over"},
		{[]string{"run", "a", "-q", "--max-hold", "300ms", "--", "sleep", "60"}, exitMaxHold, ""},
		{[]string{"run"}, exitUsage, "want -- before the command"},
		{[]string{"run", "a", "true"}, exitUsage, "want -- before the command"},
		{[]string{"run", "a", "b", "--", "true"}, exitUsage, "want one name"},
		{[]string{"run", "a", "--"}, exitUsage, "want a command"},
		{[]string{"run", "", "--", "true"}, exitUsage, "name is empty"},
		{[]string{"run", "\xff", "--", "true"}, exitUsage, "UTF-8"},
		{[]string{"run", "a", "--ttl", "1h", "--", "true"}, exitUsage, "--ttl 1h0m0s: want 1s to 5m"},
		{[]string{"run", "a", "--ttl", "100ms", "--", "true"}, exitUsage, "--ttl 100ms: want 1s to 5m"},
		{[]string{"lead", "a", "me", "--ttl", "100ms", "--", "true"}, exitUsage, "--ttl 100ms: want 1s to 5m"},
		{[]string{"run", "a", "--grace", "1m", "--", "true"}, exitUsage, "--grace"},
		{[]string{"run", "a", "--wait", "1s", "--try", "--", "true"}, exitUsage, "wait"},
		{[]string{"run", "a", "--shell", "--", "true", "x"}, exitUsage, "one argument"},
		{[]string{"run", "taken", "--token-file", "/no/such/dir/token", "--", "true"}, exitUsage, "--token-file: open /no/such/dir/"},
		{[]string{"lead", "taken", "me", "--token-file", filepath.Dir(plain), "--", "true"}, exitUsage, "--token-file: " + filepath.Dir(plain) + ": is a directory"},
		{[]string{"run", "a", "--no-such-flag", "--", "true"}, exitUsage, "no-such-flag"},
		{[]string{"no-such-command"}, exitUsage, "no-such-command"},
		{[]string{"run", "a", "--endpoints", "127.0.0.1:1", "--dial-timeout", "1s", "--command-timeout", "2s", "--", "true"}, exitUnreachable, "127.0.0.1:1: connect: connection refused"},
		{[]string{"run", "a", "--endpoints", "127.0.0.1:1", "--dial-timeout", "1s", "--wait", "2s", "--", "true"}, exitUnreachable, "127.0.0.1:1: connect: connection refused"},
		{[]string{"run", "a", "--cacert", "/no/such/file", "--", "true"}, exitUsage, "--cacert: open /no/such/file"},
	} {
		code, _, stderr := run(t, tt.args...)
		if code != tt.code {
			t.Errorf("%q: exit code %d, want %d (%s)", tt.args, code, tt.code, stderr)
		}
		if tt.stderr == "" && stderr != "" || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%q: said %q, want %q in it", tt.args, stderr, tt.stderr)
		}
		if code >= exitUsage && strings.Count(stderr, "\n") > 1 {
			t.Errorf("%q: more than one line: %q", tt.args, stderr)
		}
	}
	c.NoKeysWithin(t, time.Minute, "leasehold/a/")
}

func TestRun_CredentialsAndPermissions(t *testing.T) {
	c := cluster(t)
	etcd, ctx := c.DirectClient(t), t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(etcd.UserAdd(ctx, "root", "secret"))
	must(etcd.UserGrantRole(ctx, "root", "root"))
	must(etcd.UserAdd(ctx, "narrow", "secret"))
	must(etcd.RoleAdd(ctx, "narrow"))
	must(etcd.RoleGrantPermission(ctx, "narrow", "leasehold/", "leasehold0", clientv3.PermissionType(clientv3.PermReadWrite)))
	must(etcd.UserGrantRole(ctx, "narrow", "narrow"))
	must(etcd.AuthEnable(ctx))
	for _, tt := range []struct {
		args []string
		code int
	}{
		{[]string{"--user", "narrow:secret"}, exitOK},
		{[]string{"--user", "narrow", "--password", "secret"}, exitOK},
		{[]string{"--user", "narrow:wrong"}, exitDenied},
		{[]string{"--user", "nobody:secret"}, exitDenied},
		{nil, exitDenied},
		{[]string{"--user", "narrow:secret", "--prefix", "elsewhere/"}, exitDenied},
		{[]string{"--user", "narrow"}, exitUsage},
	} {
		code, _, stderr := run(t, append(append([]string{"run", "a"}, tt.args...), "--", "true")...)
		if code != tt.code || (code != 0) != (strings.Count(stderr, "\n") == 1) {
			t.Errorf("%q: exit code %d, want %d, said %q", tt.args, code, tt.code, stderr)
		}
	}
}

func TestRun_CommandLearnsWhatItRunsUnder(t *testing.T) {
	c := cluster(t)
	t.Setenv("LEASEHOLD_TOKEN", "of an outer run")
	file := filepath.Join(t.TempDir(), "token")
	code, out, stderr := run(t, "run", "a name/with a slash", "--ttl", "5s", "--token-file", file, "--", "sh", "-c",
		`echo "$LEASEHOLD_NAME|$LEASEHOLD_KEY|$LEASEHOLD_TOKEN|$ETCD_LOCK_KEY|$ETCD_LOCK_REV|$LEASEHOLD_DEADLINE"; cat "$0"; env | grep -c LEASEHOLD_TOKEN`, file)
	if code != 0 {
		t.Fatal(code, stderr)
	}
	lines := strings.Split(out, "\n")
	f := strings.Split(lines[0], "|")
	if f[0] != "a name/with a slash" || !strings.HasPrefix(f[1], "leasehold/a name%2Fwith a slash/") || f[3] != f[1] || f[4] != f[2] {
		t.Errorf("environment: %q", f)
	}
	if token, err := leasehold.ParseToken(f[2]); err != nil || token.String() != lines[1] {
		t.Errorf("token %q, in the file %q", f[2], lines[1])
	}
	if lines[2] != "1" {
		t.Errorf("the token is %s times in the environment", lines[2])
	}
	var deadline float64
	if _, err := fmt.Sscan(f[5], &deadline); err != nil || time.Until(time.UnixMilli(int64(deadline*1000))) > 5*time.Second {
		t.Errorf("deadline %q", f[5])
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the token file is left behind")
	}
	_ = c
}

func TestRun_PassesSignalsOnAndReleasesAfterwards(t *testing.T) {
	c := cluster(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		// What was ignored when the tests began (nohup does that) is ignored by what they start, and no shell can trap it; what is
		// handled here is not.
		handled := make(chan os.Signal, 1)
		signal.Notify(handled, sig)
		defer signal.Stop(handled)
		ready := filepath.Join(t.TempDir(), "ready")
		p := command(t, "run", "a", "--", "sh", "-c", fmt.Sprintf(`trap 'exit 33' %d; echo > "$0"; while :; do sleep 0.01; done`, sig), ready).start(t)
		eventually(t, "the command runs", written(ready))
		if err := p.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		if code := p.code(); code != 33 {
			t.Errorf("%v: exit code %d, want the trap's (%s)", sig, code, &p.err)
		}
	}
	lock(t, c, "a") // it is free
}

// keysInLine returns what counts the keys in the line of a name.
func keysInLine(t *testing.T, c *leaseholdtest.Cluster, name string) func() int64 {
	etcd := c.DirectClient(t)
	return func() int64 {
		t.Helper()
		resp, err := etcd.Get(t.Context(), "leasehold/"+name+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return resp.Count
	}
}

func TestRun_InterruptedWaitLeavesTheLine(t *testing.T) {
	c := cluster(t)
	lock(t, c, "a")
	keys := keysInLine(t, c, "a")
	p := command(t, "run", "a", "--", "true").start(t)
	eventually(t, "it is in line", func() bool { return keys() == 2 })
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 128+15 {
		t.Errorf("exit code %d (%s)", code, &p.err)
	}
	if n := keys(); n != 1 {
		t.Errorf("%d keys are in line, want the holder's alone", n)
	}
}

// TestRun_ASignalThatComesTwiceAtOnceStillLeavesTheLine does what GNU timeout does: it signals the process, then its group.
func TestRun_ASignalThatComesTwiceAtOnceStillLeavesTheLine(t *testing.T) {
	c := cluster(t)
	lock(t, c, "a")
	keys := keysInLine(t, c, "a")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := command(t, "run", "a", "--ttl", "2m", "--", "true").start(t)
		eventually(t, "it is in line", func() bool { return keys() == 2 })
		// Many, because the kernel makes one of those that are not yet delivered.
		for began := time.Now(); time.Since(began) < 50*time.Millisecond; {
			if err := p.Process.Signal(sig); err != nil {
				break // it has ended
			}
		}
		if code := p.code(); code != 128+int(sig) {
			t.Errorf("%v: exit code %d (%s)", sig, code, &p.err)
		}
		if n := keys(); n != 1 {
			t.Fatalf("%v: %d keys are in line, want the holder's alone", sig, n)
		}
	}
}

func TestRun_DeletedKeyEndsTheCommand(t *testing.T) {
	c := cluster(t)
	path := filepath.Join(t.TempDir(), "stamps")
	p := command(t, "run", "a", "--", os.Args[0], stamperArg, path).start(t)
	eventually(t, "the command writes", written(path))
	if _, err := c.DirectClient(t).Delete(t.Context(), "leasehold/a/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != exitLost || !strings.Contains(p.err.String(), `lost "a"`) {
		t.Errorf("exit code %d (%s)", code, &p.err)
	}
}

func TestRun_NeverTwoAtOnceMixedWithEtcdsOwnLocks(t *testing.T) {
	c := cluster(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	// Each writes its beginning and its end in one write each; two that overlap are interleaved.
	script := `echo "b $$" >> "$0"; sleep 0.05; echo "e $$" >> "$0"`
	const each = 8
	var wg sync.WaitGroup
	for range each {
		p := command(t, "run", "nightly", "--prefix", "jobs/", "--", "sh", "-c", script, log).start(t)
		wg.Go(func() {
			if code := p.code(); code != 0 {
				t.Errorf("exit code %d (%s)", code, &p.err)
			}
		})
	}
	for i := range each {
		etcd := c.DirectClient(t)
		wg.Go(func() {
			s, err := concurrency.NewSession(etcd, concurrency.WithTTL(60))
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			m := concurrency.NewMutex(s, "jobs/nightly") // as etcdctl lock does
			if err := m.Lock(t.Context()); err != nil {
				t.Error(err)
				return
			}
			appendLine(t, log, fmt.Sprintf("b mutex%d", i))
			time.Sleep(20 * time.Millisecond)
			appendLine(t, log, fmt.Sprintf("e mutex%d", i))
			if err := m.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != 4*each {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), 4*each, text)
	}
	for i := 0; i < len(lines); i += 2 {
		if b, e := strings.TrimPrefix(lines[i], "b "), strings.TrimPrefix(lines[i+1], "e "); b != e {
			t.Fatalf("two at once, at line %d:\n%s", i+1, text)
		}
	}
}

func appendLine(t *testing.T, path, line string) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err == nil {
		_, err = f.WriteString(line + "\n")
		_ = f.Close()
	}
	if err != nil {
		t.Error(err)
	}
}
