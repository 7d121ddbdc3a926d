// SPDX-License-Identifier: Apache-2.0

// Package preflight measures whether a cluster, this machine and a configuration fit together.
package preflight

import (
	"time"
)

// Severity says what a finding means for whoever wants to hold locks.
type Severity string

// The severities.
const (
	OK      Severity = "ok"
	Note    Severity = "note"    // worth knowing; nothing to do
	Warning Severity = "warning" // works, but not as well as it could, or with a known flaw
	Failure Severity = "failure" // does not work, or is not safe
)

// Finding is one thing that was looked at.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`
	Text     string   `json:"text"`
}

// Report is all of it.
type Report struct {
	Findings []Finding `json:"findings"`

	// What was measured, for the advice and for machines.
	Members    []Member      `json:"members"`
	GrantedTTL time.Duration `json:"granted_ttl_ns"`
	LeastTTL   time.Duration `json:"least_ttl_ns"` // what etcd grants if a second is asked for
	Wakeup     time.Duration `json:"wakeup_ns"`    // by how much this machine's timers were late at worst
	AdviceTTL  time.Duration `json:"advice_ttl_ns"`
}

// Member is what was seen of one endpoint.
type Member struct {
	Endpoint string        `json:"endpoint"`
	ID       string        `json:"id,omitempty"`
	Version  string        `json:"version,omitempty"`
	Leads    bool          `json:"leads"`
	Median   time.Duration `json:"median_ns,omitempty"`
	Worst    time.Duration `json:"worst_ns,omitempty"`
	Rate     *Rate         `json:"rate,omitempty"`
	Error    string        `json:"error,omitempty"`
}

// Rate is how a clock ran compared with this machine's: how much faster, in parts of one, and how sure that is.
type Rate struct {
	Drift float64 `json:"drift"`
	Error float64 `json:"error"`
}

func (r *Report) add(s Severity, subject, text string) {
	r.Findings = append(r.Findings, Finding{s, subject, text})
}

// Bad reports whether something does not work or is not safe.
func (r *Report) Bad() bool {
	for _, f := range r.Findings {
		if f.Severity == Failure {
			return true
		}
	}
	return false
}
