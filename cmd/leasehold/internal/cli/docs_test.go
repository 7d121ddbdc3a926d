// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"regexp"
	"slices"
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
	a := new(app)
	for _, code := range regexp.MustCompile(`(?m)^ +(\d+)  `).FindAllStringSubmatch(a.runCommand().Long, -1) {
		if !strings.Contains(docs, "\n| "+code[1]+" |") {
			t.Errorf("exit code %s of the help is not in the documentation", code[1])
		}
	}
	for _, cmd := range []*cobra.Command{a.runCommand(), a.leadCommand()} {
		for code, flag := range map[string]string{"  120  ": "try", "  121  ": "wait"} {
			if has := cmd.Flags().Lookup(flag) != nil; has != strings.Contains(cmd.Long, code) {
				t.Errorf("%s: --%s is there: %v, its exit code in the help: %v", cmd.Name(), flag, has, !has)
			}
		}
	}
	for cmd, codes := range map[string][]string{
		"run":     {"64", "118", "119", "120", "121", "122", "123", "125", "126", "127"},
		"lead":    {"64", "118", "119", "122", "123", "125", "126", "127"},
		"leader":  {"0", "1", "64", "118", "119", "125"},
		"list":    {"0", "64", "118", "119", "125"},
		"show":    {"0", "1", "64", "118", "119", "125"},
		"release": {"0", "1", "64", "118", "119", "125"},
		"watch":   {"64", "118", "119", "125"},
		"check":   {"0", "1", "64", "118", "119", "125"},
		"demo":    {"0", "1", "64", "125"},
	} {
		c, _, err := a.root().Find([]string{cmd})
		if err != nil {
			t.Fatal(err)
		}
		_, help, _ := strings.Cut(c.Long, "Exit codes:\n\n")
		var told []string
		for _, code := range regexp.MustCompile(`(?m)^ *(\d+)  `).FindAllStringSubmatch(help, -1) {
			told = append(told, code[1])
		}
		if !slices.Equal(told, codes) || !strings.Contains(help, "128+n") {
			t.Errorf("%s --help tells the exit codes %q, want %q and 128+n", cmd, told, codes)
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
