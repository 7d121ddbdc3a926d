// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestCheckName(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		ok   bool
	}{
		{"plain", "nightly", true},
		{"one byte", "a", true},
		{"slash", "/", true},
		{"slashes", "a//b", true},
		{"nul", "\x00", true},
		{"space", " ", true},
		{"other scripts", "склад-東京", true},
		{"longest", strings.Repeat("n", 1024), true},
		{"empty", "", false},
		{"too long", strings.Repeat("n", 1025), false},
		{"a megabyte", strings.Repeat("n", 1<<20), false},
		{"invalid UTF-8", "a\xff", false},
		{"cut rune", "東"[:2], false},
		{"surrogate", "\xed\xa0\x80", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := checkName(tc.in)
			if tc.ok != (err == nil) {
				t.Fatalf("checkName: %v", err)
			}
			if err != nil && !errors.Is(err, ErrInvalidName) {
				t.Errorf("%v does not match ErrInvalidName", err)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
		})
	}
}

func TestEscapeName_ChangesOnlyWhatItMust(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"nightly", "nightly"},
		{"a b.c-d_e:f", "a b.c-d_e:f"},
		{"склад-東京", "склад-東京"},
		{"a/b", "a%2Fb"},
		{"/", "%2F"},
		{"a//b", "a%2F%2Fb"},
		{"%", "%25"},
		{"%2F", "%252F"},
		{"a\x00b", "a%00b"},
		{"\t\n\x1f\x7f", "%09%0A%1F%7F"},
		{"\u0080", "\u0080"}, // a control rune, but no byte of it is one
	} {
		if got := escapeName(tc.in); got != tc.want {
			t.Errorf("escapeName(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestPlaceKey_IsWhereEtcdsOwnMutexStands(t *testing.T) {
	if got := lineDir("jobs/", "nightly"); got != "jobs/nightly/" {
		t.Errorf("lineDir = %q", got)
	}
	if got, want := placeKey("jobs/nightly/", clientv3.LeaseID(0x7587abc), 0x1f), "jobs/nightly/7587abc-1f"; got != want {
		t.Errorf("placeKey = %q, want %q", got, want)
	}
}

// Two different names are strangers: neither's range holds a key of the other's, whatever the prefix.
func FuzzLineDir_DifferentNamesNeverShareARange(f *testing.F) {
	for _, pair := range [][2]string{
		{"a", "a/b"},
		{"a/", "a"},
		{"/", "//"},
		{"%", "%25"},
		{"a%2Fb", "a/b"},
		{"a", "a\x00"},
		{"a0", "a/"},
		{"\x7f", "\x1f"},
		{"é", "e"},
		{"a-1", "a"},
	} {
		f.Add("leasehold/", pair[0], pair[1], uint64(1))
	}
	f.Add("", "a", "b", uint64(0))
	f.Fuzz(func(t *testing.T, prefix, a, b string, seq uint64) {
		if checkName(a) != nil || checkName(b) != nil {
			t.Skip("not names")
		}
		dirA, dirB := lineDir(prefix, a), lineDir(prefix, b)
		key := placeKey(dirB, clientv3.LeaseID(seq>>1), seq)
		if in := inRange(dirA, key); in != (a == b) {
			t.Errorf("key %q of %q in the range of %q: %v", key, b, a, in)
		}
		if a != b && (strings.HasPrefix(dirA, dirB) || strings.HasPrefix(dirB, dirA)) {
			t.Errorf("one of %q and %q is a prefix of the other", dirA, dirB)
		}
		if esc := escapeName(a); strings.ContainsAny(esc, "/\x00\n\x7f") || !utf8.ValidString(esc) {
			t.Errorf("escapeName(%q) = %q", a, esc)
		}
		if unescape(escapeName(a)) != a {
			t.Errorf("escapeName(%q) = %q says less than the name", a, escapeName(a))
		}
	})
}

// A neighbour is found by its key.
func FuzzParsePlaceKey_IsTheInverseOfPlaceKey(f *testing.F) {
	f.Add(int64(0x7587abc), uint64(0), "leasehold/a/7587abc-0")
	f.Add(int64(1), uint64(1<<63), "leasehold/a/00001-0")
	f.Add(int64(1<<62), uint64(17), "leasehold/a/-1-1")
	f.Add(int64(9), uint64(9), "other")
	f.Fuzz(func(t *testing.T, lease int64, slot uint64, foreign string) {
		const dir = "leasehold/a/"
		if lease > 0 { // as all of ours are
			gotLease, gotSlot, ok := parsePlaceKey(dir, placeKey(dir, clientv3.LeaseID(lease), slot))
			if !ok || int64(gotLease) != lease || gotSlot != slot {
				t.Errorf("lease %x, slot %x: parsed as %x, %x, %v", lease, slot, gotLease, gotSlot, ok)
			}
		}
		// The key of somebody else: whatever it is parsed as, it is one of ours only if it is written as ours are.
		if l, n, ok := parsePlaceKey(dir, foreign); ok && strings.HasPrefix(foreign, dir) && len(foreign) < len(placeKey(dir, l, n)) {
			t.Errorf("%q is parsed as more than it says: %x, %x", foreign, l, n)
		}
	})
}

// inRange is what etcd does with clientv3.WithPrefix.
func inRange(dir, key string) bool {
	return key >= dir && key < clientv3.GetPrefixRangeEnd(dir)
}

func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' || i+2 >= len(s) {
			b.WriteByte(s[i])
			continue
		}
		digit := func(c byte) byte { return byte(strings.IndexByte("0123456789ABCDEF", c)) }
		b.WriteByte(digit(s[i+1])<<4 | digit(s[i+2]))
		i += 2
	}
	return b.String()
}
