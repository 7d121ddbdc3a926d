// SPDX-License-Identifier: Apache-2.0

package lines_test

import (
	"testing"
	"time"

	"example.com/leasehold/cmd/leasehold/internal/lines"
)

func FuzzParseHolder_IsTheInverseOfHolder(f *testing.F) {
	f.Add("host:1", int64(1764400000))
	f.Add("a since b", int64(0))
	f.Add(" since 2026-01-01T00:00:00Z", int64(-1))
	f.Fuzz(func(t *testing.T, name string, seconds int64) {
		since := time.Unix(seconds%(1<<37), 0).UTC()
		if since.Year() < 0 || since.Year() > 9999 {
			return // RFC 3339 cannot write it
		}
		got, at := lines.ParseHolder(lines.Holder(name, since))
		if got != name || !at.Equal(since) {
			t.Errorf("%q since %v was read as %q since %v", name, since, got, at)
		}
		if got, _ := lines.ParseHolder(name); len(got) > len(name) {
			t.Errorf("%q was read as %q", name, got)
		}
	})
}
