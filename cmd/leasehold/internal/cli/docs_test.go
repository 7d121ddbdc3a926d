// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestDocs_NameEveryCommandFlagAndExitCode(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(text)
	for _, code := range regexp.MustCompile(`(?m)^ +(\d+)  `).FindAllStringSubmatch(exitCodes, -1) {
		if !strings.Contains(docs, "\n| "+code[1]+" |") {
			t.Errorf("exit code %s of the help is not in the documentation", code[1])
		}
	}
	a := new(app)
	for _, cmd := range []*cobra.Command{a.runCommand(), a.leadCommand()} {
		for code, flag := range map[string]string{"  120  ": "try", "  121  ": "wait"} {
			if has := cmd.Flags().Lookup(flag) != nil; has != strings.Contains(cmd.Long, code) {
				t.Errorf("%s: --%s is there: %v, its exit code in the help: %v", cmd.Name(), flag, has, !has)
			}
		}
	}
	for _, cmd := range a.root().Commands() {
		if !cmd.Hidden && !strings.Contains(docs, "`"+cmd.Name()) {
			t.Errorf("the command %s is not in the documentation", cmd.Name())
		}
	}
	flags := new(cobra.Command)
	a.etcdFlags(flags)
	for _, name := range []string{"endpoints", "cacert", "cert", "key", "user", "password", "dial-timeout", "embedded", "data-dir"} {
		if flags.Flags().Lookup(name) == nil || !strings.Contains(docs, "--"+name) {
			t.Errorf("--%s is missing in the flags or in the documentation", name)
		}
	}
}
