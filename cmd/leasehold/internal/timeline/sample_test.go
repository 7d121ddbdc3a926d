// SPDX-License-Identifier: Apache-2.0

package timeline

import "time"

func s(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// sample is a picture like the demo's.
func sample() Picture {
	return Picture{
		Title:    "Who believed what when",
		Subtitle: "Three processes, one lock, TTL 3 s, on one clock of this machine.",
		Length:   s(16),
		Lanes: []Lane{
			{Name: "alpha", Note: "pid 4711", Spans: []Span{{Believes, s(0.4), s(2), "token 4", 1}, {Waits, s(2), s(16), "", 0}}},
			{Name: "beta", Note: "pid 4712", Spans: []Span{{Waits, s(0.5), s(2.01), "", 0}, {Believes, s(2.02), s(6.1), "token 5", 2}, {Stopped, s(3.5), s(8.5), "", 0}, {Waits, s(8.6), s(16), "", 0}}},
			{Name: "gamma", Note: "pid 4713", Spans: []Span{{Waits, s(0.55), s(6.5), "", 0}, {Believes, s(6.5), s(15.6), "token 6", 3}}},
			{
				Name: "register", Note: "fenced",
				Spans: []Span{{Accepts, s(0.5), s(2.1), "4", 1}, {Accepts, s(2.1), s(6.6), "5", 2}, {Accepts, s(6.6), s(16), "6", 3}},
				Ticks: []Tick{{s(0.5), false, 1}, {s(1), false, 1}, {s(1.5), false, 1}, {s(2.5), false, 2}, {s(3), false, 2}, {s(7), false, 3}, {s(7.5), false, 3}, {s(8.55), true, 2}},
			},
			{Name: "etcd m0", Spans: []Span{{Follows, 0, s(16), "", 0}}},
			{Name: "etcd m1", Spans: []Span{{Leads, 0, s(10), "leads", 0}, {Down, s(10), s(16), "stopped", 0}}},
			{Name: "etcd m2", Spans: []Span{{Follows, 0, s(10.4), "", 0}, {Leads, s(10.4), s(16), "leads", 0}}},
		},
		Events: []Event{
			{s(2.02), 1, "alpha released, beta is next in line: token 5"},
			{s(0.4), 0, "alpha is first: token 4"},
			{s(3.5), 1, "beta is stopped (SIGSTOP) while it holds"},
			{s(6.1), 1, "beta's term ends by its own clock, unseen by beta"},
			{s(6.5), 2, "gamma takes over with the larger token 6"},
			{s(8.5), 1, "beta is resumed (SIGCONT); its first check says: expired"},
			{s(8.55), 3, "beta writes all the same with token 5; the register has seen 6 and refuses <it>"},
			{s(10), 5, "the etcd leader is stopped"},
			{s(10.4), 6, "another member leads"},
			{s(15), 2, "gamma still holds token 6, after more than a term"},
		},
	}
}
