// SPDX-License-Identifier: Apache-2.0

package lines

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/leasehold"
	"example.com/leasehold/leaseholdtest"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDir_IsTheSDKs holds the copy of the escaping here to the keys that the SDK really writes.
func TestDir_IsTheSDKs(t *testing.T) {
	c := leaseholdtest.Start(t, leaseholdtest.Options{})
	s, err := leasehold.NewSession(t.Context(), c.DirectClient(t), leasehold.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(context.Background()) }()
	for _, name := range []string{"plain", "a/b", "a%2Fb", "/", "//", "%", " spaces ", "tab\tnewline\n", "\x00\x1f\x7f", "Köln 東京", "%zz"} {
		g, err := s.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if dir := Dir("leasehold/", name); !strings.HasPrefix(g.Key(), dir) || strings.Contains(g.Key()[len(dir):], "/") {
			t.Errorf("%q: the SDK writes %q, here it is %q", name, g.Key(), dir)
		}
		line, _, err := ReadOne(t.Context(), c.DirectClient(t), "leasehold/", name)
		if err != nil || line.Name != name || len(line.Places) != 1 || line.Places[0].Token != g.Token() || line.Places[0].Problem != "" {
			t.Errorf("%q: read back %+v, %v", name, line, err)
		}
	}
}

func FuzzUnescape_IsTheInverse(f *testing.F) {
	for _, s := range []string{"", "a/b", "%2F", "%%", "\x00", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := unescape(escape(s)); got != s {
			t.Errorf("%q came back as %q", s, got)
		}
		if strings.Contains(escape(s), "/") {
			t.Errorf("%q can leave its name", s)
		}
	})
}

func TestHolder_KeepsTheTime(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	if name, since := ParseHolder(Holder("web since yesterday", now)); name != "web since yesterday" || !since.Equal(now) {
		t.Errorf("%q, %v", name, since)
	}
	for _, value := range []string{"", "web:1", "web since yesterday"} {
		if name, since := ParseHolder(value); name != value || !since.IsZero() {
			t.Errorf("%q: %q, %v", value, name, since)
		}
	}
}

func TestParse_PointsOutWhatIsWrong(t *testing.T) {
	for key, tt := range map[string]struct {
		lease   int64
		ok      bool
		problem string
	}{
		"p/a/1f-0":  {0x1f, true, ""},
		"p/a/1f":    {0x1f, true, ""}, // of etcd's own locks
		"p/a/1f-x":  {0x1f, true, "not a lock's key"},
		"p/a/hello": {0, true, "without a lease"},
		"p/a/1f-1":  {0, true, "its lease was taken"},
		"p/a/1f-2":  {0x2f, true, "another lease"},
		"p/a":       {0, false, "stands in no line"},
		"p/":        {0, false, "stands in no line"},
	} {
		name, p, ok := Parse("p/", &mvccpb.KeyValue{Key: []byte(key), Lease: tt.lease, CreateRevision: 7})
		if ok != tt.ok || ok && name != "a" || p.Token != 7 || (p.Problem == "") != (tt.problem == "") || !strings.Contains(p.Problem, tt.problem) {
			t.Errorf("%s: %q, %+v, %v", key, name, p, ok)
		}
	}
}
