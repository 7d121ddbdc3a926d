// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestParseToken_RefusesWhatNoTokenPrints(t *testing.T) {
	for _, in := range []string{
		"", " ", "0", "00", "-1", "-0", "+1", "01", " 1", "1 ", "1\n", "1.0", "1e3", "0x1", "1_000", "१", "١",
		"9223372036854775808", strings.Repeat("9", 1<<20), "-9223372036854775808", "1\x00", "nan",
	} {
		got, err := ParseToken(in)
		if err == nil || got != 0 {
			t.Errorf("ParseToken(%.40q) = %v, %v; want an error", in, got, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("ParseToken of %d bytes: an error of %d bytes", len(in), len(err.Error()))
		}
	}
	if _, err := ParseToken(strings.Repeat("9", 30)); !errors.Is(err, strconv.ErrRange) {
		t.Errorf("too large: %v, want strconv.ErrRange in it", err)
	}
}

func FuzzParseToken_IsTheInverseOfString(f *testing.F) {
	for _, s := range []string{"1", "42", "9223372036854775807", "0", "-1", "+1", "007", "1e9", "", "\xff", "1 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := ParseToken(s)
		if err != nil {
			if tok != 0 {
				t.Errorf("ParseToken(%q) = %d with the error %v", s, tok, err)
			}
			return
		}
		if tok <= 0 || tok.String() != s {
			t.Errorf("ParseToken(%q) = %d, which prints as %q", s, tok, tok.String())
		}
	})
}

func TestToken_StringParsesBack(t *testing.T) {
	for _, tok := range []Token{1, 2, 9, 10, 1 << 31, 1 << 53, math.MaxInt64} {
		if got, err := ParseToken(tok.String()); err != nil || got != tok {
			t.Errorf("ParseToken(%q) = %v, %v", tok, got, err)
		}
	}
}

// R13: what a late writer can still do is refused where it arrives.
func TestFence_AdmitsRisingTokensAndRefusesLateOnes(t *testing.T) {
	var f Fence
	for _, step := range []struct {
		resource string
		token    Token
		refused  bool
		highest  Token
	}{
		{"a", 5, false, 0},
		{"a", 5, false, 0}, // one holder writes many times
		{"a", 4, true, 5},
		{"b", 4, false, 0}, // of another resource
		{"a", 9, false, 0},
		{"a", 5, true, 9},
		{"a", 0, true, 9}, // a forgotten token
		{"a", -1, true, 9},
		{"c", 0, true, 0},
		{"c", math.MaxInt64, false, 0},
		{"", 1, false, 0},
	} {
		err := f.Check(step.resource, step.token)
		if step.refused != (err != nil) {
			t.Fatalf("Check(%q, %d) = %v", step.resource, step.token, err)
		}
		if err == nil {
			continue
		}
		stale, ok := errors.AsType[*StaleTokenError](err)
		if !ok || !errors.Is(err, ErrStaleToken) {
			t.Fatalf("Check(%q, %d) = %v, want a *StaleTokenError", step.resource, step.token, err)
		}
		if want := (StaleTokenError{step.resource, step.token, step.highest}); *stale != want {
			t.Errorf("refused with %+v, want %+v", *stale, want)
		}
	}
}

func TestFence_NeverGoesBackUnderConcurrentWriters(t *testing.T) {
	const writers, writes, resources = 8, 2000, 3
	var f Fence
	var mu sync.Mutex
	admitted := make(map[string]Token) // the highest that was admitted for sure
	var wg sync.WaitGroup
	for i := range writers {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		wg.Go(func() {
			for range writes {
				resource := string(rune('a' + rng.IntN(resources)))
				tok := Token(1 + rng.IntN(10_000))
				mu.Lock()
				before := admitted[resource]
				mu.Unlock()
				err := f.Check(resource, tok)
				if tok < before && err == nil {
					t.Errorf("%s: admitted %d after %d", resource, tok, before)
				}
				if stale, ok := errors.AsType[*StaleTokenError](err); ok && (stale.Highest <= tok || stale.Highest < before) {
					t.Errorf("%s: refused %d with %d as the highest, after %d", resource, tok, stale.Highest, before)
				}
				if err == nil {
					mu.Lock()
					admitted[resource] = max(admitted[resource], tok)
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for resource, highest := range admitted {
		if err := f.Check(resource, highest-1); err == nil {
			t.Errorf("%s: %d admitted at the end, after %d", resource, highest-1, highest)
		}
	}
}

// A token that no grant has is no stale one: the message names the value and the rule.
func TestFence_SaysWhatIsWrongWithATokenOfNoGrant(t *testing.T) {
	var f Fence
	for _, token := range []Token{0, -3} {
		err := f.Check("r", token)
		if !errors.Is(err, ErrStaleToken) || !strings.Contains(err.Error(), token.String()+" for resource") || !strings.Contains(err.Error(), "1 or more") {
			t.Errorf("token %d: %v", token, err)
		}
	}
}
