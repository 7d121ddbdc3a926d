// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	sdk "example.com/leasehold"
	"example.com/leasehold/cmd/leasehold/internal/board"
	"example.com/leasehold/cmd/leasehold/internal/lines"
	"example.com/leasehold/cmd/leasehold/internal/preflight"
	"example.com/leasehold/cmd/leasehold/internal/terminal"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// fill puts keys by hand: as many leases as asked for, and keys under them in turn.
func fill(t *testing.T, etcd *clientv3.Client, leases int, keys ...string) {
	t.Helper()
	var ids []clientv3.LeaseID
	for range leases {
		g, err := etcd.Grant(t.Context(), 600)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, g.ID)
	}
	var ops []clientv3.Op
	flush := func() {
		if _, err := etcd.Txn(t.Context()).Then(ops...).Commit(); err != nil {
			t.Fatal(err)
		}
		ops = ops[:0]
	}
	for i, dir := range keys {
		id := ids[i%len(ids)]
		ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%x-%x", dir, int64(id), i), fmt.Sprintf("host:%d", i), clientv3.WithLease(id)))
		if len(ops) == 100 {
			flush()
		}
	}
	if len(ops) > 0 {
		flush()
	}
}

// objects decodes lines of JSON.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(text) {
		var o map[string]any
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, o)
	}
	return all
}

func TestList_ShowsWhatIsHeldAndPointsOutWhatIsWrong(t *testing.T) {
	c := cluster(t)
	etcd := c.DirectClient(t)
	g := lock(t, c, "a name/with a slash")
	for key, value := range map[string]string{
		"leasehold/stuck/no-lease": "somebody\x1b[31m",
		"leasehold/astray":         "nobody",
	} {
		if _, err := etcd.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
	code, out, stderr := run(t, "list")
	if code != 0 || stderr != "" {
		t.Fatal(code, stderr)
	}
	for _, want := range []string{"a name/with a slash", "the test", g.Token().String(), "no lease", "blocks the name", "leasehold/astray: stands in no line"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.ContainsRune(out, '\x1b') {
		t.Errorf("an escape sequence out of etcd reaches the terminal:\n%q", out)
	}
	code, out, _ = run(t, "list", "a name", "-o", "json")
	all := objects(t, out)
	if code != 0 || len(all) != 1 || all[0]["name"] != g.Name() || all[0]["key"] != g.Key() || all[0]["token"] != float64(g.Token()) || all[0]["waiting"] != 0.0 {
		t.Errorf("%d, %v", code, all)
	}
	if code, out, stderr = run(t, "list", "nothing like this"); code != 0 || out != "" || !strings.Contains(stderr, "nothing is held") {
		t.Errorf("an empty list: %d, %q, %q", code, out, stderr)
	}
}

func TestShow_ListsTheLineInOrder(t *testing.T) {
	c := cluster(t)
	etcd := c.DirectClient(t)
	for _, holder := range []string{"first", "second", "third"} {
		g, err := etcd.Grant(t.Context(), 600)
		if err == nil {
			_, err = etcd.Put(t.Context(), fmt.Sprintf("leasehold/a/%x", int64(g.ID)), holder, clientv3.WithLease(g.ID))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	code, out, stderr := run(t, "show", "a")
	if code != 0 || stderr != "" {
		t.Fatal(code, stderr)
	}
	rows := strings.Split(strings.TrimSpace(out), "\n")
	if len(rows) != 4 || !strings.HasPrefix(rows[1], "holds  first ") || !strings.HasPrefix(rows[2], "1.     second") || !strings.HasPrefix(rows[3], "2.     third ") {
		t.Errorf("\n%s", out)
	}
	if !strings.Contains(rows[1], "/10m") {
		t.Errorf("what is left of the lease is missing: %s", rows[1])
	}
	if code, _, stderr := run(t, "show", "b"); code != exitNo || !strings.Contains(stderr, `nobody holds "b"`) {
		t.Errorf("an empty line: %d, %q", code, stderr)
	}
}

func TestListAndShow_AThousandNamesAndWaiters(t *testing.T) {
	c := cluster(t)
	etcd := c.DirectClient(t)
	var names, waiters []string
	for i := range 1000 {
		names = append(names, fmt.Sprintf("leasehold/name%04d/", i))
		waiters = append(waiters, "leasehold/busy/")
	}
	fill(t, etcd, 1000, names...)
	fill(t, etcd, 1000, waiters...)
	// What takes time is the reading, some tenths of a second; how soon a process starts here says nothing about that.
	began := time.Now()
	listing, err := lines.Read(t.Context(), etcd, "leasehold/", "")
	if err != nil {
		t.Fatal(err)
	}
	var first, line []*lines.Place
	for i := range listing.Lines {
		first = append(first, &listing.Lines[i].Places[0])
		if listing.Lines[i].Name == "busy" {
			for j := range listing.Lines[i].Places {
				line = append(line, &listing.Lines[i].Places[j])
			}
		}
	}
	if err := lines.FillLeases(t.Context(), etcd, first...); err != nil {
		t.Fatal(err)
	}
	list := time.Since(began)
	began = time.Now()
	if err := lines.FillLeases(t.Context(), etcd, line...); err != nil {
		t.Fatal(err)
	}
	t.Logf("list %v, show %v", list, time.Since(began))
	if len(first) != 1001 || len(line) != 1000 || line[999].TTL != 600*time.Second {
		t.Fatalf("%d names, %d in line", len(first), len(line))
	}
	code, out, _ := run(t, "list")
	if code != 0 || strings.Count(out, "\n") != 1002 || !strings.Contains(out, "999\n") {
		t.Errorf("%d, %d lines", code, strings.Count(out, "\n"))
	}
	if code, out, _ := run(t, "show", "busy"); code != 0 || strings.Count(out, "\n") != 1001 {
		t.Errorf("%d, %d lines", code, strings.Count(out, "\n"))
	}
}

func TestRelease_TakesOnlyTheTokenThatWasMeant(t *testing.T) {
	c := cluster(t)
	g := lock(t, c, "a")
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"release", "a"}, exitUsage, "--token is required; see leasehold show NAME"},
		{[]string{"release", "a", "--token", "0x1"}, exitUsage, `--token "0x1": want a positive decimal number`},
		{[]string{"release", "a", "--token", "abc"}, exitUsage, `--token "abc": want a positive decimal number`},
		{[]string{"release", "a", "--token", "99999", "--yes"}, exitNo, "held by the test with token " + g.Token().String()},
		{[]string{"release", "b", "--token", "99999", "--yes"}, exitNo, `nobody holds "b"`},
		{[]string{"release", "a", "--token", g.Token().String()}, exitUsage, "--yes"},
	} {
		if code, _, stderr := run(t, tt.args...); code != tt.code || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%q: %d, %q", tt.args, code, stderr)
		}
	}
	if !g.Valid() {
		t.Fatal("the grant is gone")
	}
	if code, _, stderr := run(t, "release", "a", "--token", g.Token().String(), "-y"); code != 0 {
		t.Fatal(code, stderr)
	}
	select {
	case <-g.Done():
	case <-time.After(time.Minute):
		t.Error("the holder was not told")
	}
}

func TestLeader_PrintsTheValueOrSaysThatNobodyLeads(t *testing.T) {
	c := cluster(t)
	if code, out, stderr := run(t, "leader", "e"); code != exitNo || out != "" || !strings.Contains(stderr, `nobody leads "e"`) {
		t.Errorf("%d, %q, %q", code, out, stderr)
	}
	s, err := sdk.NewSession(t.Context(), c.DirectClient(t), sdk.Config{TTL: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	watcher := command(t, "leader", "e", "--watch", "-o", "json")
	watcher.Stdout = nil
	pipe, err := watcher.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	news := bufio.NewScanner(pipe)
	watcher.start(t)
	next := func(value string, token sdk.Token) {
		t.Helper()
		if !news.Scan() {
			t.Fatalf("no news: %s", &watcher.err)
		}
		if o := objects(t, news.Text())[0]; o["value"] != value || o["token"] != float64(token) {
			t.Fatalf("%s, want %q with token %v", news.Text(), value, token)
		}
	}
	next("", 0)
	l, err := s.Election("e").Campaign(t.Context(), "10.0.0.7")
	if err != nil {
		t.Fatal(err)
	}
	next("10.0.0.7", l.Token())
	if code, out, _ := run(t, "leader", "e"); code != 0 || out != "10.0.0.7\n" {
		t.Errorf("%d, %q", code, out)
	}
	if err := l.Proclaim(t.Context(), "10.0.0.8"); err != nil {
		t.Fatal(err)
	}
	next("10.0.0.8", l.Token())
	if err := l.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	next("", 0)
}

func TestWatch_PrintsALineForEachChange(t *testing.T) {
	c := cluster(t)
	p := command(t, "watch", "a")
	p.Stdout = nil
	pipe, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	news := bufio.NewScanner(pipe)
	g := lock(t, c, "a")
	p.start(t)
	next := func(want string) {
		t.Helper()
		if !news.Scan() || !strings.Contains(news.Text(), want) {
			t.Fatalf("%q, want %q in it (%s)", news.Text(), want, &p.err)
		}
	}
	next("a: the test holds, token " + g.Token().String())
	if err := g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	next("a: free (before: the test")
}

func TestFrame_FitsTheScreen(t *testing.T) {
	now := time.Now()
	var standings []board.Standing
	var changes []board.Change
	for i := range 50 {
		p := lines.Place{Holder: strings.Repeat("long", 30), Token: sdk.Token(i + 1)}
		standings = append(standings, board.Standing{Line: lines.Line{Name: fmt.Sprintf("name-%d", i), Places: []lines.Place{p, p}}, Since: now})
		changes = append(changes, board.Change{At: now, Kind: board.Holds, Name: "name", Place: p})
	}
	for _, size := range [][2]int{{40, 10}, {80, 24}, {200, 60}} {
		s := terminal.Screen{Terminal: true, Width: size[0], Height: size[1]}
		text := frame("leasehold/", standings, changes, s, now)
		rows := strings.Split(text, "\r\n")
		if len(rows) > size[1] {
			t.Errorf("%v: %d rows", size, len(rows))
		}
		for _, row := range rows {
			row = strings.NewReplacer(homeScreen, "", clearLine, "", clearBelow, "").Replace(row)
			if n := len([]rune(row)); n > size[0] {
				t.Errorf("%v: %d columns: %q", size, n, row)
			}
		}
	}
}

func TestCheck_ExitCodeIsForScripts(t *testing.T) {
	cluster(t)
	if code, out, stderr := run(t, "check", "--measure", "0s"); code != 0 || !strings.Contains(out, "permission") {
		t.Errorf("%d, %q, %q", code, out, stderr)
	} else if !regexp.MustCompile(`round trip [0-9.mµ]+s \(the median of 20 tries; the slowest took [0-9.mµ]+s\)`).MatchString(out) {
		t.Errorf("the round trip is not explained: %s", out)
	}
	code, out, _ := run(t, "check", "--measure", "0s", "--endpoints", "127.0.0.1:1", "--command-timeout", "500ms", "-o", "json")
	if code != exitNo || !strings.Contains(out, `"severity":"failure"`) {
		t.Errorf("%d, %q", code, out)
	}
}

func TestCheck_PrintsAFindingALineUnlessToATerminal(t *testing.T) {
	var out strings.Builder
	text := strings.TrimSpace(strings.Repeat("word ", 100))
	(&app{stdout: &out}).printReport(&preflight.Report{Findings: []preflight.Finding{{Severity: preflight.OK, Subject: "a", Text: text}, {Severity: preflight.Note, Subject: "b", Text: text}}})
	if rows := strings.Split(out.String(), "\n"); len(rows) != 3 || !strings.HasSuffix(rows[0], " a: "+text) || !strings.HasSuffix(rows[1], " b: "+text) {
		t.Errorf("\n%s", &out)
	}
}

func TestVersion_NamesTheRevisionWhereTheBuildKnowsIt(t *testing.T) {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "59d338d"}, {Key: "vcs.modified", Value: "true"}}}
	if v := versionOf(info, true); v.Version != "(devel)" || v.Revision != "59d338d" || !v.Modified {
		t.Errorf("%+v", v)
	}
	if v := versionOf(nil, false); v.Version != "(devel)" || v.Revision != "" {
		t.Errorf("%+v without build information", v)
	}
}

func TestVersion_AndHelp(t *testing.T) {
	if code, out, _ := run(t, "version", "-o", "json"); code != 0 || len(objects(t, out)) != 1 {
		t.Errorf("%d, %q", code, out)
	}
	for _, cmd := range []string{"", "run", "lead", "leader", "list", "show", "release", "watch", "check", "demo", "version", "completion"} {
		args := append(strings.Fields(cmd), "--help")
		if code, out, stderr := run(t, args...); code != 0 || stderr != "" || !strings.Contains(out, "Usage:") {
			t.Errorf("%q: %d, %q", args, code, stderr)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := run(t, "completion", shell); code != 0 || out == "" {
			t.Errorf("%s: %d", shell, code)
		}
	}
}
