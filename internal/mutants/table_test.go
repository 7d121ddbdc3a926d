// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of mutants into docs/testing.md")

// The lines between which the table stands.
const tableBegins, tableEnds = "<!-- mutants: go test ./internal/mutants -update -->\n", "<!-- end of mutants -->\n"

// table returns what docs/testing.md says of the mutants: one line each, by rule.
func table() string {
	var b strings.Builder
	fmt.Fprint(&b, "| rule | broken | what goes red |\n|---|---|---|\n")
	for _, m := range all() {
		var killers []string
		for name := range strings.SplitSeq(m.killers, "|") {
			killers = append(killers, "`Test"+name+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.rule, m.what, strings.Join(killers, ", "))
	}
	return b.String()
}

func TestDocuments_ListEveryMutant(t *testing.T) {
	path := filepath.Join(root, "docs", "testing.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	written, after, ends := strings.Cut(rest, tableEnds)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no place for the table of mutants", path)
	case written == table():
	case *update:
		if err := os.WriteFile(path, []byte(before+tableBegins+table()+tableEnds+after), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not list the mutants as they are: go test ./internal/mutants -update", path)
	}
}
