// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// banned says by import path and name what library code must not use, and what instead.
var banned = map[string]map[string]string{
	"time": {
		"After": "it cannot be stopped, and in a loop it makes a timer a turn; use a time.Timer",
		"Sleep": "nothing can interrupt it; wait for the event, or for a time.Timer and the context",
		"Tick":  "it cannot be stopped; use a time.Ticker",
	},
	"context": {
		"Background": "every wait is bounded by a context of the caller; work that outlives it takes context.WithoutCancel and a timeout",
		"TODO":       "every wait is bounded by a context of the caller",
	},
	"os":  {"Exit": "a library does not end its process; return an error"},
	"log": {"Fatal": noFatal, "Fatalf": noFatal, "Fatalln": noFatal},
}

const noFatal = "a library does not end its process; return an error"

// checkUses looks for banned names and panics in code that is not a test. A use counts, called or not.
func checkUses(f file) []Problem {
	if f.test() {
		return nil
	}
	var found []Problem
	packages := map[string]string{} // local name to import path
	for _, spec := range f.syntax.Imports {
		importPath := unquote(spec)
		name := path.Base(importPath)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			found = append(found, f.problem(spec.Pos(), "dot import", "it hides where names come from, from readers and from this check"))
		}
		packages[name] = importPath
	}
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				importPath := packages[x.Name]
				if instead, bad := banned[importPath][n.Sel.Name]; bad {
					found = append(found, f.problem(n.Pos(), importPath+"."+n.Sel.Name, instead))
				}
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && fn.Name == "panic" {
				found = append(found, f.problem(n.Pos(), "panic", "misuse is answered by an error"))
			}
		}
		return true
	})
	return found
}

// serverUsers are the folders that may bring an etcd server into a program, besides tests.
var serverUsers = []string{"leaseholdtest", "cmd", "bench"}

// checkServerImport keeps the etcd server, with its storage and its hundred dependencies, out of programs that only
// want a lock.
func checkServerImport(f file) []Problem {
	if f.test() || f.under(serverUsers...) {
		return nil
	}
	var found []Problem
	for _, spec := range f.syntax.Imports {
		if within(unquote(spec), "go.etcd.io/etcd/server/v3") {
			found = append(found, f.problem(spec.Pos(), "server import",
				"the etcd server is for tests, and for "+strings.Join(serverUsers, ", ")))
		}
	}
	return found
}

// coreImports are the modules and packages outside of the standard library that the core may import: the root package and
// the packages of the repository that it pulls in. docs/decisions has the reason for each.
var coreImports = []string{
	"go.etcd.io/etcd/api/v3",
	"go.etcd.io/etcd/client/v3",
	"go.uber.org/zap",
	"google.golang.org/grpc",
}

// coreImportsOf are those that one package of the core may import besides.
var coreImportsOf = map[string][]string{
	"internal/clock": {"golang.org/x/sys/unix"},
}

// checkCoreImports follows the imports of the root package through the repository's own packages.
func checkCoreImports(files []file, module string) []Problem {
	var found []Problem
	core := []string{"."} // folders; grows while it is walked
	for i := 0; i < len(core); i++ {
		for _, f := range files {
			if f.syntax == nil || f.test() || f.dir() != core[i] {
				continue
			}
			for _, spec := range f.syntax.Imports {
				importPath := unquote(spec)
				if own, ok := strings.CutPrefix(importPath, module+"/"); ok {
					if !slices.Contains(core, own) {
						core = append(core, own)
					}
					continue
				}
				if !coreMayImport(f.dir(), importPath) {
					found = append(found, f.problem(spec.Pos(), "core import",
						fmt.Sprintf("%q would come with every program that uses the module; see docs/decisions", importPath)))
				}
			}
		}
	}
	return found
}

func coreMayImport(dir, importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	if !strings.Contains(first, ".") && first != "C" {
		return true // the standard library; cgo would need a C compiler
	}
	allowed := func(a string) bool { return within(importPath, a) }
	return slices.ContainsFunc(coreImports, allowed) || slices.ContainsFunc(coreImportsOf[dir], allowed)
}

// within reports whether an import path is root or below it.
func within(importPath, root string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}

func unquote(spec *ast.ImportSpec) string {
	s, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value // the parser lets no such thing pass
	}
	return s
}
