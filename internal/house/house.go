// SPDX-License-Identifier: Apache-2.0

// Package house checks the repository for the house rules that no linter knows. Its test runs them over every file of
// the repository; nothing else imports it.
//
// The rules are read off the syntax, without types, and err on the strict side: a local variable that is named like a
// package is taken for the package. What must break a rule all the same stands in the list of exceptions, with a reason.
package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Problem is one place that breaks a rule.
type Problem struct {
	Path string // from the root of the repository, with slashes
	Line int
	Rule string // the name by which an exception excuses it
	Text string // what to do instead, and why
}

func (p Problem) String() string { return fmt.Sprintf("%s:%d: %s: %s", p.Path, p.Line, p.Rule, p.Text) }

// Exception excuses one rule in one place.
type Exception struct {
	Path   string // a file, or a folder and all below it if it ends in a slash
	Rule   string
	Reason string
}

func (e Exception) holds(path string) bool {
	return e.Path == path || strings.HasSuffix(e.Path, "/") && strings.HasPrefix(path, e.Path)
}

// Check reads every file of a repository, whose root module has the given path, and returns the places that break a
// rule and are not excused, in the order of their paths and lines. An exception for a place that no longer needs it is a
// problem too, so that the list of them does not outlive its reasons.
func Check(repo fs.FS, module string, exceptions []Exception) ([]Problem, error) {
	files, err := load(repo)
	if err != nil {
		return nil, err
	}
	var found []Problem
	for _, f := range files {
		found = append(found, checkText(f)...)
		if f.syntax != nil {
			found = append(found, checkUses(f)...)
			found = append(found, checkServerImport(f)...)
		}
	}
	found = append(found, checkCoreImports(files, module)...)

	used := make([]bool, len(exceptions))
	found = slices.DeleteFunc(found, func(p Problem) bool {
		i := slices.IndexFunc(exceptions, func(e Exception) bool { return e.Rule == p.Rule && e.holds(p.Path) })
		if i >= 0 {
			used[i] = true
		}
		return i >= 0
	})
	for i, e := range exceptions {
		exists := slices.ContainsFunc(files, func(f file) bool { return e.holds(f.path) })
		if exists && !used[i] {
			found = append(found, Problem{Path: e.Path, Rule: "exception", Text: "the exception from " + e.Rule + " excuses nothing; remove it"})
		}
		if e.Reason == "" {
			found = append(found, Problem{Path: e.Path, Rule: "exception", Text: "the exception from " + e.Rule + " has no reason"})
		}
	}
	slices.SortFunc(found, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule))
	})
	return found, nil
}

// file is one file of the repository.
type file struct {
	path   string
	text   string
	fset   *token.FileSet
	syntax *ast.File // nil unless it is Go source
}

func (f file) dir() string { return path.Dir(f.path) }
func (f file) test() bool  { return strings.HasSuffix(f.path, "_test.go") }
func (f file) under(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return strings.HasPrefix(f.path, d+"/") })
}

func (f file) problem(pos token.Pos, rule, text string) Problem {
	return Problem{Path: f.path, Line: f.fset.Position(pos).Line, Rule: rule, Text: text}
}

// load reads the files of the repository: not what git keeps for itself and what builds leave behind.
func load(repo fs.FS) ([]file, error) {
	var files []file
	err := fs.WalkDir(repo, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", "bin", "dist", "node_modules"}, d.Name()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // .git is a file in a worktree
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(repo, p)
		if err != nil {
			return err
		}
		f := file{path: p, text: string(text)}
		if path.Ext(p) == ".go" && !strings.Contains("/"+p, "/testdata/") { // which the go command passes over, too
			f.fset = token.NewFileSet()
			if f.syntax, err = parser.ParseFile(f.fset, p, text, parser.ParseComments|parser.SkipObjectResolution); err != nil {
				return err
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}
