// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	kill = flag.Bool("kill", false, "run the tests against every mutant")
	only = flag.String("only", "", "a regular expression: kill only mutants whose rule and description match")
)

// A mutant breaks one decision.
type mutant struct {
	rule    string // "R1" to "R13", or what else it is about
	what    string // is broken
	edits   []edit
	killers string // tests of which at least one must go red, as "TestA|TestB"; without the leading "Test"
}

// An edit replaces a text that occurs once in a file of the root package, or below it.
type edit struct{ file, find, put string }

const root = "../.."

// apply returns the changed files of a mutant.
func (m mutant) apply() (map[string][]byte, error) {
	changed := make(map[string][]byte)
	for _, e := range m.edits {
		text, ok := changed[e.file]
		if !ok {
			var err error
			if text, err = os.ReadFile(filepath.Join(root, e.file)); err != nil {
				return nil, err
			}
		}
		if n := bytes.Count(text, []byte(e.find)); n != 1 {
			return nil, fmt.Errorf("%s: found %d times, want once: %q", e.file, n, e.find)
		}
		changed[e.file] = bytes.Replace(text, []byte(e.find), []byte(e.put), 1)
	}
	for name, text := range changed {
		if _, err := format.Source(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return changed, nil
}

func TestMutants_StillApply(t *testing.T) {
	tests := testsOfRoot(t)
	rules, described := make(map[string]bool), make(map[string]bool)
	for _, m := range all() {
		if _, err := m.apply(); err != nil {
			t.Errorf("%s, %s: %v", m.rule, m.what, err)
		}
		if described[m.what] {
			t.Errorf("%q is there twice", m.what)
		}
		rules[m.rule], described[m.what] = true, true
		for name := range strings.SplitSeq(m.killers, "|") {
			if !tests["Test"+name] {
				t.Errorf("%s, %s: no test Test%s in the fast part", m.rule, m.what, name)
			}
		}
	}
	for i := 1; i <= 13; i++ {
		if rule := fmt.Sprint("R", i); !rules[rule] {
			t.Errorf("no mutant breaks %s", rule)
		}
	}
}

// TestMutants_AreKilled is what make mutants runs. It takes minutes.
func TestMutants_AreKilled(t *testing.T) {
	if !*kill {
		t.Skip("takes minutes: run by make mutants")
	}
	chosen := regexp.MustCompile(*only)
	var mutants []mutant
	names := make(map[string]bool)
	for _, m := range all() {
		if chosen.MatchString(m.rule + " " + m.what) {
			mutants = append(mutants, m)
			for name := range strings.SplitSeq(m.killers, "|") {
				names[name] = true
			}
		}
	}
	if len(mutants) == 0 {
		t.Fatalf("no mutant matches %q", *only)
	}
	var killers []string
	for name := range names {
		killers = append(killers, name)
	}
	if v := run(t, nil, pattern(strings.Join(killers, "|"))); v.failed() {
		t.Fatalf("the tests fail without any mutant:\n%s", v.output)
	}
	rows := make([]string, len(mutants))
	var wg sync.WaitGroup
	turns := make(chan struct{}, 2)
	for i, m := range mutants {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			start := time.Now()
			by := killer(t, m)
			rows[i] = fmt.Sprintf("| %s | %s | %s | %.0f s |", m.rule, m.what, by, time.Since(start).Seconds())
			t.Log(rows[i])
		})
	}
	wg.Wait()
	fmt.Printf("\n| rule | broken | noticed by | took |\n|---|---|---|---|\n%s\n", strings.Join(rows, "\n"))
}

// killer returns the test that noticed a mutant.
func killer(t *testing.T, m mutant) string {
	changed, err := m.apply()
	if err != nil {
		t.Errorf("%s, %s: %v", m.rule, m.what, err)
		return "DOES NOT APPLY"
	}
	v := run(t, changed, pattern(m.killers))
	switch {
	case v.broken:
		t.Errorf("%s, %s: does not compile:\n%s", m.rule, m.what, v.output)
		return "DOES NOT COMPILE"
	case v.failed():
		return v.red
	}
	// Somebody else may have noticed: then the table is wrong, which is less bad than a survivor.
	if v = run(t, changed, "."); v.failed() {
		t.Errorf("%s, %s: noticed by %s, but not by %s", m.rule, m.what, v.red, m.killers)
		return "only " + v.red
	}
	t.Errorf("%s, %s: SURVIVED", m.rule, m.what)
	return "NOBODY"
}

func pattern(killers string) string {
	return "^(Test" + strings.ReplaceAll(killers, "|", "$|Test") + "$)"
}

// A verdict is what the tests said.
type verdict struct {
	broken bool   // did not compile
	red    string // the first test that failed
	output string // its end
}

func (v verdict) failed() bool { return v.broken || v.red != "" }

var (
	firstRed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	running  = regexp.MustCompile(`(?m)running tests:\s+(\w+)`)
)

// run runs the fast tests of the root package that match, with files changed.
func run(t *testing.T, changed map[string][]byte, tests string) verdict {
	t.Helper()
	dir := t.TempDir()
	base, err := filepath.Abs(root)
	if err != nil {
		t.Error(err)
		return verdict{}
	}
	replace := make(map[string]string)
	for _, name := range slowTests(t) {
		replace[filepath.Join(base, name)] = "" // not there
	}
	n := 0
	for name, text := range changed {
		n++
		file := filepath.Join(dir, fmt.Sprintf("%d.go", n))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Error(err)
			return verdict{}
		}
		replace[filepath.Join(base, name)] = file
	}
	overlay := filepath.Join(dir, "overlay.json")
	spec, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(overlay, spec, 0o600)
	}
	if err != nil {
		t.Error(err)
		return verdict{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast", "-timeout=60s", "-run", tests, ".")
	cmd.Dir = base
	out, err := cmd.CombinedOutput()
	v := verdict{output: string(out[max(0, len(out)-4000):])}
	if err == nil {
		return v
	}
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Errorf("go test: %v", err)
	}
	switch {
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		v.broken = true
	case firstRed.Match(out):
		v.red = string(firstRed.FindSubmatch(out)[1])
	case running.Match(out):
		v.red = string(running.FindSubmatch(out)[1]) + " (hung)"
	default:
		v.red = "a crash"
	}
	return v
}

// parsed are the test files of the root package.
var parsed = sync.OnceValues(func() (map[string]*ast.File, error) {
	files := make(map[string]*ast.File)
	names, err := filepath.Glob(filepath.Join(root, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files[filepath.Base(name)] = f
	}
	return files, nil
})

// slow tells whether a test file is no part of the fast tests: it starts real servers, or belongs to those that may.
func slow(f *ast.File) bool {
	return f.Name.Name != "leasehold" || slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		return strings.HasSuffix(i.Path.Value, `/leaseholdtest"`)
	})
}

func slowTests(t *testing.T) (names []string) {
	files, err := parsed()
	if err != nil {
		t.Error(err)
	}
	for name, f := range files {
		if slow(f) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// testsOfRoot are the fast tests.
func testsOfRoot(t *testing.T) map[string]bool {
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	for _, f := range files {
		if slow(f) {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	return tests
}
