// SPDX-License-Identifier: Apache-2.0

package leasehold

import (
	"slices"
	"strings"
	"testing"
)

func TestVersionWarnings(t *testing.T) {
	const revoked, leader, unknown = "just revoked", "former leader", "unknown"
	for _, tc := range []struct {
		version string
		want    []string
	}{
		{"3.7.3", nil},
		{"3.7.0", nil},
		{"3.6.5", nil},
		{"3.6.4", []string{revoked}},
		{"3.6.0", []string{revoked}},
		{"3.5.23", nil},
		{"3.5.22", []string{revoked}},
		{"3.5.13", []string{revoked}},
		{"3.5.12", []string{revoked, leader}},
		{"3.5.0", []string{revoked, leader}},
		{"3.4.31", []string{revoked}},
		{"3.4.30", []string{revoked, leader}},
		{"3.3.27", []string{revoked, leader}},
		{"2.3.8", []string{revoked, leader}},
		{"3.10.0", nil},
		{"3.8.0-alpha.0", nil},
		{"3.6.4-rc.1", []string{revoked}},
		{"4.0.0", nil},
		{"4.5.0", nil},
		{"", []string{unknown}},
		{"3.7", []string{unknown}},
		{"not a version", []string{unknown}},
	} {
		got := versionWarnings(tc.version)
		if len(got) != len(tc.want) || !slices.EqualFunc(got, tc.want, strings.Contains) {
			t.Errorf("versionWarnings(%q) = %q, want them about %q", tc.version, got, tc.want)
		}
	}
}
