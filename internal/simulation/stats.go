// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Stats counts what happened in runs, so that a run that tested nothing is seen.
type Stats struct {
	Plans      int
	Simulated  time.Duration
	Steps      map[string]int // by verb
	Grants     int
	Losses     map[string]int // ends of grants, by reason
	Excused    int            // looks at which two held, one of them not yet told of an operator
	LongestGet time.Duration  // by a newcomer at the end
}

// Add adds the counts of another.
func (s *Stats) Add(o Stats) {
	s.Plans += o.Plans
	s.Simulated += o.Simulated
	s.Grants += o.Grants
	s.Excused += o.Excused
	s.LongestGet = max(s.LongestGet, o.LongestGet)
	s.Steps = sum(s.Steps, o.Steps)
	s.Losses = sum(s.Losses, o.Losses)
}

func sum(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	if out == nil {
		out = make(map[string]int)
	}
	for k, n := range b {
		out[k] += n
	}
	return out
}

func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules, %v simulated, %d grants, longest wait of a newcomer %v\n", s.Plans, s.Simulated.Round(time.Second), s.Grants, s.LongestGet.Round(time.Millisecond))
	fmt.Fprintf(&b, "steps: %s\n", counts(s.Steps))
	fmt.Fprintf(&b, "ends of grants: %s; looks at a holder that was not told yet: %d\n", counts(s.Losses), s.Excused)
	return b.String()
}

func counts(m map[string]int) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, fmt.Sprintf("%s %d", k, m[k]))
	}
	return strings.Join(out, ", ")
}
