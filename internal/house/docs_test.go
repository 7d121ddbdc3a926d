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

// Go code in a document that names its source, in a comment on the line before, is in that file, line by line and without a
// gap, apart from the indentation. A line "..." stands for lines that are left out.
func TestDocuments_ShowCodeThatIsTested(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	documents, err := fs.Glob(root, "docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, document := range append(documents, "README.md") {
		text, err := fs.ReadFile(root, document)
		if err != nil {
			t.Fatal(err)
		}
		blocks := blocksFrom(string(text))
		shown += len(blocks)
		for _, b := range blocks {
			source, err := fs.ReadFile(root, b.source)
			if err != nil {
				t.Errorf("%s shows code of a file that cannot be read: %v", document, err)
				continue
			}
			if missing, ok := b.in(string(source)); !ok {
				t.Errorf("%s shows code that is not in %s:\n%s", document, b.source, missing)
			}
		}
		// What these are read for is their code: none of it is anything but tested.
		if document == "README.md" || document == "docs/testing-your-service.md" {
			if n := strings.Count(string(text), "```go\n"); n == 0 || n != len(blocks) {
				t.Errorf("%s has %d pieces of Go code, of which %d name their source", document, n, len(blocks))
			}
		}
	}
	if shown < 5 {
		t.Errorf("only %d pieces of code name their source: is the pattern still right?", shown)
	}
}

func TestBlock_IsInItsSourceWithoutAGap(t *testing.T) {
	const source = "a\n\tb\nc\nd\n"
	for shown, want := range map[string]bool{
		"a\nb": true, "  b\n  c": true, "a\n...\nd": true, "a\nb\n...\nc": true, "...\nd": true,
		"a\nc": false, "b\na": false, "x": false, "c\n...\nb": false, "a\n...\nc\nb": false,
	} {
		if _, ok := (block{code: shown}).in(source); ok != want {
			t.Errorf("%q is in %q: %v, want %v", shown, source, ok, want)
		}
	}
}

// A block is a piece of code in a document that names the file which it is taken from.
type block struct{ source, code string }

var blockFrom = regexp.MustCompile("(?ms)^<!-- from (\\S+) -->\\n```go\\n(.*?)\\n```$")

func blocksFrom(document string) []block {
	var blocks []block
	for _, m := range blockFrom.FindAllStringSubmatch(document, -1) {
		blocks = append(blocks, block{m[1], m[2]})
	}
	return blocks
}

// in tells whether the block is in its source, or which part of it is not.
func (b block) in(source string) (missing string, ok bool) {
	rest := "\n" + trimmed(source) + "\n"
	for part := range strings.SplitSeq("\n"+trimmed(b.code)+"\n", "\n...\n") {
		if part = strings.Trim(part, "\n"); part == "" {
			continue
		}
		part = "\n" + part + "\n"
		i := strings.Index(rest, part)
		if i < 0 {
			return part, false
		}
		rest = rest[i+len(part)-1:]
	}
	return "", true
}

// trimmed is text without the indentation of its lines.
func trimmed(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}

func TestReadme_IsShort(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(readme), "\n"); lines > 150 {
		t.Errorf("README.md has %d lines, want at most 150", lines)
	}
}
