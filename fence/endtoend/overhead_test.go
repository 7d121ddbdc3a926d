// SPDX-License-Identifier: Apache-2.0

package endtoend

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"example.com/leasehold"
)

// BenchmarkOverhead makes fenced and unfenced writes in turn, so that whatever else the machine does hits both, and reports
// their medians and the ratio of these.
func BenchmarkOverhead(b *testing.B) {
	here, err := connect(b.Context(), start(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := here.close(); err != nil {
			b.Error(err)
		}
	})
	session, err := leasehold.NewSession(b.Context(), here.etcd, leasehold.Config{})
	if err != nil {
		b.Fatal(err)
	}
	grant, err := session.Lock(b.Context(), resource)
	if err != nil {
		b.Fatal(err)
	}
	ctx := leasehold.NewContext(b.Context(), grant)
	for _, a := range here.adapters {
		b.Run(a.name, func(b *testing.B) {
			n := 0
			timed := func(write func(context.Context, string) error) time.Duration {
				n++
				value := strconv.Itoa(n) // another one each time: a database does not write what is there already
				started := time.Now()
				if err := write(ctx, value); err != nil {
					b.Fatal(err)
				}
				return time.Since(started)
			}
			timed(a.plain) // connections, prepared statements
			timed(a.granted)
			var plain, fenced []time.Duration
			for b.Loop() {
				plain = append(plain, timed(a.plain))
				fenced = append(fenced, timed(a.granted))
			}
			p, f := median(plain), median(fenced)
			b.ReportMetric(0, "ns/op") // of two writes; the parts are what counts
			b.ReportMetric(float64(p.Microseconds()), "plain-µs")
			b.ReportMetric(float64(f.Microseconds()), "fenced-µs")
			b.ReportMetric(float64(f)/float64(p), "ratio")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
