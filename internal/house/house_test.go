// SPDX-License-Identifier: Apache-2.0

package house

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "example.com/leasehold"

func TestRepository_KeepsTheHouseRules(t *testing.T) {
	repo := os.DirFS("../..")
	files, err := load(repo)
	if err != nil {
		t.Fatal(err)
	}
	// The check must look at this repository and not at an empty folder.
	for _, want := range []string{"doc.go", "internal/house/house_test.go", "Makefile", ".ci/run"} {
		if !slices.ContainsFunc(files, func(f file) bool { return f.path == want }) {
			t.Errorf("the check does not see %s", want)
		}
	}
	found, err := Check(repo, module, Exceptions)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range found {
		t.Error(p)
	}
}

// Every rule is shown a file that breaks it and one beside the mark. A name of a file in a table is all that the
// rules know about where it stands.
func TestRules_FlagWhatTheyForbidAndNothingElse(t *testing.T) {
	const spdx = "// " + licence + "\n\n"
	slash := "/" // so that the paths below are not in this file
	long := spdx + "package p\n" + strings.Repeat("\n", maxLines-3)
	for _, tc := range []struct {
		name, path, text string
		want             []string // rule:line
	}{
		{"clean", "a.go", spdx + "package p\n", nil},

		{"time.After", "a.go", spdx + "package p\nimport \"time\"\nvar c = time.After(1)\n", []string{"time.After:5"}},
		{"time.Sleep", "sub/a.go", spdx + "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", []string{"time.Sleep:5"}},
		{"time.Tick", "a.go", spdx + "package p\nimport \"time\"\nvar c = time.Tick(1)\n", []string{"time.Tick:5"}},
		{"time.Sleep, not called", "a.go", spdx + "package p\nimport \"time\"\nvar wait = time.Sleep\n", []string{"time.Sleep:5"}},
		{"time.Sleep, renamed", "a.go", spdx + "package p\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n", []string{"time.Sleep:5"}},
		{"time.Sleep, dotted", "a.go", spdx + "package p\nimport . \"time\"\nfunc f() { Sleep(1) }\n", []string{"dot import:4"}},
		{"time.Sleep in a test", "a_test.go", spdx + "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", nil},
		{"another Sleep", "a.go", spdx + "package p\nimport \"other/time\"\nfunc f() { time.Sleep(1) }\n", nil},
		{"time.AfterFunc", "a.go", spdx + "package p\nimport \"time\"\nvar c = time.AfterFunc(1, nil)\n", nil},
		{"context.Background", "a.go", spdx + "package p\nimport \"context\"\nvar c = context.Background()\n", []string{"context.Background:5"}},
		{"context.TODO", "a.go", spdx + "package p\nimport \"context\"\nvar c = context.TODO()\n", []string{"context.TODO:5"}},
		{"context.WithoutCancel", "a.go", spdx + "package p\nimport \"context\"\nvar c = context.WithoutCancel(nil)\n", nil},
		{"os.Exit", "a.go", spdx + "package p\nimport \"os\"\nfunc f() { os.Exit(1) }\n", []string{"os.Exit:5"}},
		{"log.Fatal", "a.go", spdx + "package p\nimport \"log\"\nfunc f() { log.Fatalf(\"\") }\n", []string{"log.Fatalf:5"}},
		{"panic", "a.go", spdx + "package p\nfunc f() { panic(1) }\n", []string{"panic:4"}},
		{"recover", "a.go", spdx + "package p\nfunc f() { recover() }\n", nil},
		{"panic in a test", "a_test.go", spdx + "package p\nfunc f() { panic(1) }\n", nil},

		{"foreign import in the root", "a.go", spdx + "package p\nimport _ \"github.com/x/y\"\n", []string{"core import:4"}},
		{"cgo in the root", "a.go", spdx + "package p\nimport \"C\"\n", []string{"core import:4"}},
		{"prefix of an allowed import", "a.go", spdx + "package p\nimport _ \"go.uber.org/zapper\"\n", []string{"core import:4"}},
		{"x/sys in the root", "a.go", spdx + "package p\nimport _ \"golang.org/x/sys/unix\"\n", []string{"core import:4"}},
		{"foreign import in a test of the root", "a_test.go", spdx + "package p\nimport _ \"github.com/x/y\"\n", nil},
		{"foreign import elsewhere", "fence/a.go", spdx + "package p\nimport _ \"github.com/x/y\"\n", nil},
		{
			"allowed imports in the root", "a.go",
			spdx + "package p\nimport _ \"net/http\"\nimport _ \"go.etcd.io/etcd/client/v3\"\n" +
				"import _ \"go.etcd.io/etcd/api/v3/etcdserverpb\"\nimport _ \"go.uber.org/zap/zapcore\"\nimport _ \"google.golang.org/grpc/codes\"\n", nil,
		},

		{"server in the root", "a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", []string{"core import:4", "server import:4"}},
		{"server in a package", "fence/a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", []string{"server import:4"}},
		{"server in a folder named alike", "cmdline/a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", []string{"server import:4"}},
		{"server in the test kit", "leaseholdtest/a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", nil},
		{"server in the command", "cmd/leasehold/a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", nil},
		{"server in the benchmarks", "bench/a.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", nil},
		{"server in a test", "a_test.go", spdx + "package p\nimport _ \"go.etcd.io/etcd/server/v3/embed\"\n", nil},

		{"no licence", "a.go", "package p\n", []string{"licence:1"}},
		{"no licence in a test", "a_test.go", "package p\n", []string{"licence:1"}},
		{"licence too late", "a.go", "\n" + spdx + "package p\n", []string{"licence:1"}},
		{"generated", "a.go", "// Code generated by x. DO NOT EDIT.\npackage p\n", nil},
		{"no licence in a script", "run", "#!/bin/bash\nset -e\n", []string{"licence:2"}},
		{"no licence in a script of one line", "run", "#!/bin/bash", []string{"licence:2"}},
		{"no licence in a sourced script", "a.sh", "set -e\n", []string{"licence:1"}},
		{"no licence in a makefile", "Makefile", "all:\n", []string{"licence:1"}},
		{"licensed script", "run", "#!/bin/bash\n# " + licence + "\n", nil},
		{"licensed makefile", "Makefile", "# " + licence + "\n", nil},
		{"prose", "README.md", "# Title\n", nil},

		{"broken on purpose", "sub/testdata/a.go", "package", nil},
		{"left behind by a build", "bin/a.go", "package p\n", nil},

		{"as long as can be", "a.go", long, nil},
		{"too long, but generated", "a.go", "// Code generated by x. DO NOT EDIT.\n" + long, nil},
		{"too long", "a.go", long + "\n", []string{"length:401"}},
		{"too long a test", "a_test.go", long + "\n", []string{"length:401"}},
		{"too long prose", "a.md", strings.Repeat("\n", 1000), nil},

		{"path in prose", "a.md", "a\nsee " + slash + "home/me/x\n", []string{"machine path:2"}},
		{"path in a string", "a_test.go", spdx + "package p\nvar s = \"" + slash + "work/x\"\n", []string{"machine path:4"}},
		{"path alone", "a.md", slash + "root", []string{"machine path:1"}},
		{"path on a Mac", "a.md", slash + "Users/me", []string{"machine path:1"}},
		{"path on Windows", "a.md", `C:` + `\Users\me`, []string{"machine path:1"}},
		{"address", "a.md", "https://example.com" + slash + "home and a/b" + slash + "work", nil},
		{"longer word", "a.md", slash + "workers do " + slash + "rooted things", nil},
		{"binary", "a.bin", "\x00 " + slash + "home/me", nil},

		{"unfinished", "a_test.go", spdx + "package p\n// TO" + "DO: more\n", []string{"unfinished:4"}},
		{"string that says so", "a_test.go", spdx + "package p\nvar s = `TO" + "DO`\n", nil},

		{"vague name", "internal/util/a.go", spdx + "package util\n", []string{"vague name:1"}},
		{"telling name", "internal/utility/a.go", spdx + "package utility\n", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := Check(fstest.MapFS{tc.path: {Data: []byte(tc.text)}}, module, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := summary(found); !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

// A package of the repository that the root imports counts as the root does, however far away; others may import what
// they like.
func TestCoreImports_AreFollowedThroughOwnPackages(t *testing.T) {
	source := func(imports ...string) *fstest.MapFile {
		var text strings.Builder
		text.WriteString("// " + licence + "\n\npackage p\n")
		for _, i := range imports {
			text.WriteString("import _ \"" + i + "\"\n")
		}
		return &fstest.MapFile{Data: []byte(text.String())}
	}
	found, err := Check(fstest.MapFS{
		"a.go":                source(module + "/internal/one"),
		"internal/one/a.go":   source(module+"/internal/two", module+"/internal/clock"),
		"internal/two/a.go":   source(module+"/internal/one", "github.com/x/y", "golang.org/x/sys/unix"),
		"internal/clock/a.go": source("golang.org/x/sys/unix", "golang.org/x/sys/cpu"),
		"internal/other/a.go": source("github.com/x/y"),
	}, module, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range found {
		got = append(got, fmt.Sprintf("%s:%d %s", p.Path, p.Line, p.Rule))
	}
	want := []string{"internal/clock/a.go:5 core import", "internal/two/a.go:5 core import", "internal/two/a.go:6 core import"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestExceptions_ExcuseTheirRuleInTheirPlaceOnly(t *testing.T) {
	text := []byte("// " + licence + "\n\npackage p\nfunc f() { panic(1) }\n")
	repo := fstest.MapFS{"cmd/a.go": {Data: text}, "cmdline/a.go": {Data: text}, "b.go": {Data: text}}
	for _, tc := range []struct {
		name      string
		exception Exception
		want      []string
	}{
		{"file", Exception{"b.go", "panic", "r"}, []string{"cmd/a.go panic", "cmdline/a.go panic"}},
		{"folder", Exception{"cmd/", "panic", "r"}, []string{"b.go panic", "cmdline/a.go panic"}},
		{"folder without its slash", Exception{"cmd", "panic", "r"}, []string{"b.go panic", "cmd/a.go panic", "cmdline/a.go panic"}},
		{"other rule", Exception{"b.go", "os.Exit", "r"}, []string{"b.go exception", "b.go panic", "cmd/a.go panic", "cmdline/a.go panic"}},
		{"other rule in a folder", Exception{"cmd/", "os.Exit", "r"}, []string{"b.go panic", "cmd/ exception", "cmd/a.go panic", "cmdline/a.go panic"}},
		{"no such file", Exception{"c.go", "panic", "r"}, []string{"b.go panic", "cmd/a.go panic", "cmdline/a.go panic"}},
		{"no reason", Exception{"b.go", "panic", ""}, []string{"b.go exception", "cmd/a.go panic", "cmdline/a.go panic"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := Check(repo, module, []Exception{tc.exception})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				got = append(got, p.Path+" "+p.Rule)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCheck_DoesNotPassWhatItCannotRead(t *testing.T) {
	if _, err := Check(fstest.MapFS{"a.go": {Data: []byte("package")}}, module, nil); err == nil {
		t.Error("a file that does not parse passed the check")
	}
}

func summary(found []Problem) []string {
	var s []string
	for _, p := range found {
		rule, line, _ := strings.Cut(p.String(), ": ")
		line, _, _ = strings.Cut(line, ": ")
		s = append(s, line+rule[strings.LastIndex(rule, ":"):])
	}
	return s
}
