// SPDX-License-Identifier: Apache-2.0

package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The documents name tests as evidence: each must exist.
func TestDocuments_NameTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	tests := make(map[string]bool)
	definition := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w*)\(`)
	mention := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w*)`")
	var documents []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && d.Name() == ".git":
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range definition.FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
		case strings.HasSuffix(path, ".md"):
			documents = append(documents, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mentions := 0
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mention.FindAllSubmatch(text, -1) {
			if mentions++; !tests[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	}
	if mentions < 50 {
		t.Errorf("only %d tests are named in %d documents: is the pattern still right?", mentions, len(documents))
	}
}

// README's example is a piece of a tested one.
func TestReadme_ShowsTheTestedExample(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join("..", "..", "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	shown, _, ok2 := strings.Cut(rest, "\n```")
	if !ok || !ok2 {
		t.Fatal("README.md shows no Go code")
	}
	code := string(example)
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		i := strings.Index(code, line)
		if i < 0 {
			t.Fatalf("README.md shows %q, which is not in example_test.go in that order", line)
		}
		code = code[i+len(line):]
	}
	if lines := strings.Count(string(readme), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, want at most 150", lines)
	}
}
