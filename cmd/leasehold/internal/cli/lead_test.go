// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestLead_OncePassesTheExitCodeOn(t *testing.T) {
	cluster(t)
	if code, _, stderr := run(t, "lead", "e", "me", "--once", "--", "sh", "-c", "exit 5"); code != 5 {
		t.Errorf("%d, %s", code, stderr)
	}
	if code, _, _ := run(t, "lead", "e", "--", "true"); code != exitUsage {
		t.Errorf("without a value: %d", code)
	}
}

func TestLead_CampaignsAgainAfterTheEndAndAfterALoss(t *testing.T) {
	c := cluster(t)
	dir := t.TempDir()
	// The first command ends by itself, the second one waits to be taken its leadership, the third one for a signal.
	script := `trap 'exit 44' TERM; cd "$0"; n=$(ls | wc -l); echo > "run$n"; [ "$n" = 0 ] && exit 3; while :; do sleep 0.01; done`
	p := command(t, "lead", "e", "10.0.0.7", "--", "sh", "-c", script, dir).start(t)
	eventually(t, "the second command runs", written(filepath.Join(dir, "run1")))
	if code, out, _ := run(t, "leader", "e"); code != 0 || out != "10.0.0.7\n" {
		t.Errorf("the leader is %q", out)
	}
	if _, err := c.DirectClient(t).Delete(t.Context(), "leasehold/e/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the third command runs", written(filepath.Join(dir, "run2")))
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 44 {
		t.Errorf("exit code %d, want the command's (%s)", code, &p.err)
	}
	if !strings.Contains(p.err.String(), `lost "e"`) {
		t.Errorf("said nothing about the loss: %s", &p.err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("%d commands ran, want 3", len(left))
	}
}

func TestLead_InterruptEndsTheCampaign(t *testing.T) {
	c := cluster(t)
	lock(t, c, "e")
	p := command(t, "lead", "e", "me", "--", "true").start(t)
	etcd := c.DirectClient(t)
	eventually(t, "it is in line", func() bool {
		resp, err := etcd.Get(t.Context(), "leasehold/e/", clientv3.WithPrefix(), clientv3.WithCountOnly())
		return err == nil && resp.Count == 2
	})
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.code(); code != 128+2 {
		t.Errorf("exit code %d (%s)", code, &p.err)
	}
}
