// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxLines is the length from which a Go file holds more than one idea.
const maxLines = 400

const licence = "SPDX-License-Identifier: Apache-2.0"

var (
	// machinePath matches absolute paths that exist on somebody's machine only.
	machinePath = regexp.MustCompile(`(?:^|[^\w./~-])(?:/(?:work|root|home|Users)\b|[A-Z]:\\Users\b)`)

	unfinished = regexp.MustCompile(`\b(?:TODO|FIXME|XXX|HACK)\b`)

	// vagueNames are names of packages that say nothing about what is in them.
	vagueNames = []string{"util", "utils", "common", "pkg", "helpers", "misc"}
)

// checkText looks at what a file says, whatever language it is in.
func checkText(f file) []Problem {
	if !utf8.ValidString(f.text) || strings.ContainsRune(f.text, 0) {
		return nil // not text
	}
	var found []Problem
	add := func(line int, rule, text string) {
		found = append(found, Problem{Path: f.path, Line: line, Rule: rule, Text: text})
	}
	lines := strings.Split(f.text, "\n")

	if want, on := licenceLine(f, lines); want != "" && lines[min(on, len(lines)-1)] != want {
		add(on+1, "licence", fmt.Sprintf("want the line %q", want))
	}
	for i, line := range lines {
		if m := machinePath.FindString(line); m != "" {
			add(i+1, "machine path", "a path of one machine means nothing on another")
		}
	}
	if f.syntax == nil {
		return found
	}

	if n := strings.Count(f.text, "\n"); n > maxLines && !ast.IsGenerated(f.syntax) {
		add(n, "length", fmt.Sprintf("%d lines; one idea a file, at most %d lines", n, maxLines))
	}
	if base := path.Base(f.dir()); slices.Contains(vagueNames, base) {
		add(1, "vague name", fmt.Sprintf("a package named %q says nothing about what is in it", base))
	}
	for _, group := range f.syntax.Comments {
		for _, c := range group.List {
			if unfinished.MatchString(c.Text) {
				found = append(found, f.problem(c.Pos(), "unfinished", "finish it, or open an issue"))
			}
		}
	}
	return found
}

// licenceLine returns the line that must name the licence and its index, or nothing for files that need none: Go
// sources on their first line; scripts and makefiles on their first, or after the interpreter's line.
func licenceLine(f file, lines []string) (want string, on int) {
	switch {
	case f.syntax != nil && ast.IsGenerated(f.syntax):
		return "", 0
	case f.syntax != nil:
		return "// " + licence, 0
	case strings.HasPrefix(lines[0], "#!"):
		return "# " + licence, 1
	case path.Ext(f.path) == ".sh" || path.Base(f.path) == "Makefile":
		return "# " + licence, 0
	}
	return "", 0
}
