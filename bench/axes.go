// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"example.com/leasehold/bench/internal/report"
)

// axes are what the benchmark measures, in the order of the report.
var axes []axis

func init() { // not a literal, because command lists the axes and they run through it
	axes = []axis{
		{"lock", "Lock and unlock of distinct names, one client", lockAxis},
		{"handover", "Hand-over between clients that want one name", handOverAxis},
		{"crowd", "Hand-over between goroutines of one client", crowdAxis},
		{"isolated", "A single hand-over, far from etcd", isolatedAxis},
		{"grants", "Many grants of one client", grantsAxis},
		{"sessions", "Many sessions of one client", sessionsAxis},
		{"crash", "The next holder, after the end of the last", crashAxis},
		{"recovery", "A crash of a process that holds many names", recoveryAxis},
		{"leader", "A crash of etcd's leader", leaderAxis},
		{"valid", "The check before every act", validAxis},
		{"open", "Opening sessions", openAxis},
		{"growth", "Lock and unlock by distance, members and disk", growthAxis},
	}
}

// The metrics that most axes show.
func rate(label string, bar report.Bar) metric {
	return metric{"rate", label, report.PerSecond, bar}
}
func p50(bar report.Bar) metric { return metric{"p50", "median", report.Seconds, bar} }
func p99(bar report.Bar) metric { return metric{"p99", "p99", report.Seconds, bar} }
func clientCPU(of string, bar report.Bar) metric {
	return metric{"client", "client CPU per " + of, report.Seconds, bar}
}

func serverCPU(of string, bar report.Bar) metric {
	return metric{"server", "server CPU per " + of, report.Seconds, bar}
}

// plural writes a number of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// no asks for nothing.
var no report.Bar
