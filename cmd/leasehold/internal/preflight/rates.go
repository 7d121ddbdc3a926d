// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// rates compares the clocks of the members with this machine's. etcd tells no clock, but two things tick with whole
// seconds: what is left of a lease, at the member that leads, and the date of its HTTP answers, at every member. Where
// such a second begins is found by asking often; two beginnings, some seconds apart, make a rate.
func (c *checker) rates(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range c.Members {
		m := &c.Members[i]
		if m.Error == "" {
			wg.Go(func() { m.Rate = c.dateRate(ctx, m.Endpoint) })
		}
	}
	var leader *Rate
	wg.Go(func() { leader = c.leaseRate(ctx) })
	wg.Wait()
	c.judge("clock of the lessor", leader)
	for _, m := range c.Members {
		if m.Error != "" {
			continue
		}
		if m.Rate == nil {
			c.add(Note, m.Endpoint, "its clock could not be compared: it answers no plain HTTP here")
			continue
		}
		c.judge(m.Endpoint, m.Rate)
	}
}

func (c *checker) judge(subject string, r *Rate) {
	if r == nil {
		return
	}
	text := fmt.Sprintf("runs %+.0f ppm against this machine's, ±%.0f ppm; covered are %.0f ppm of each", r.Drift*1e6, r.Error*1e6, c.Drift*1e6)
	switch apart := max(r.Drift, -r.Drift); {
	case r.Error > 2*c.Drift:
		c.add(Note, subject, fmt.Sprintf("its clock could only be compared to ±%.0f ppm: measure for longer, or when this machine is less busy", r.Error*1e6))
	case apart-r.Error > 2*c.Drift:
		c.add(Failure, subject, text+": the clocks drift apart faster than the expiry allows for")
	default:
		c.add(OK, subject, text)
	}
}

// beginning is where the second with a number began: between two instants of this machine.
type beginning struct {
	from, to time.Time
	number   int64
}

func (b beginning) middle() time.Time        { return b.from.Add(b.to.Sub(b.from) / 2) }
func (b beginning) halfWidth() time.Duration { return b.to.Sub(b.from) / 2 }

// surest makes a rate of the two beginnings that give the least error. A machine that is busy at the wrong moment makes
// one of them vague, seldom all.
func surest(all []beginning) *Rate {
	var best *Rate
	for i, first := range all {
		for _, last := range all[i+1:] {
			there := time.Duration(max(last.number-first.number, first.number-last.number)) * time.Second // it may count down
			here := last.middle().Sub(first.middle())
			if there <= 0 || here <= 0 {
				continue
			}
			r := &Rate{
				Drift: (there - here).Seconds() / here.Seconds(),
				Error: (first.halfWidth() + last.halfWidth()).Seconds() / here.Seconds(),
			}
			if best == nil || r.Error < best.Error {
				best = r
			}
		}
	}
	return best
}

// measure asks for the number of the present second, often and for long enough.
func (c *checker) measure(ctx context.Context, ask func(context.Context) (int64, error)) *Rate {
	ctx, cancel := context.WithTimeout(ctx, c.Measure+5*time.Second)
	defer cancel()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var all []beginning
	var number int64
	var asked time.Time
	known := false
	// A second more than asked for, because the first one is not seen from its beginning.
	for began := time.Now(); time.Since(began) < c.Measure+time.Second; {
		sent := time.Now()
		n, err := ask(ctx)
		received := time.Now()
		if err != nil {
			return nil
		}
		if known && n != number {
			// It began after the former question was asked and before this answer came.
			all = append(all, beginning{asked, received, n})
		}
		known, number, asked = true, n, sent
		pause.Reset(2 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil
		}
	}
	return surest(all)
}

// leaseRate watches what is left of a lease, which the member that leads counts down.
func (c *checker) leaseRate(ctx context.Context) *Rate {
	ttl := int64((c.Measure + time.Minute) / time.Second)
	grant, err := c.Client.Grant(ctx, ttl)
	if err != nil {
		return nil // it has been said
	}
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Step)
		defer cancel()
		_, _ = c.Client.Revoke(rctx, grant.ID) // it ends by itself otherwise
	}()
	return c.measure(ctx, func(ctx context.Context) (int64, error) {
		resp, err := c.Client.TimeToLive(ctx, grant.ID)
		if err != nil {
			return 0, err
		}
		return resp.TTL, nil
	})
}

var errNoDate = errors.New("no date in the answer")

// dateRate watches the date of the member's HTTP answers.
func (c *checker) dateRate(ctx context.Context, endpoint string) *Rate {
	url := endpoint
	if !strings.Contains(url, "://") {
		scheme := "http://"
		if c.Config.TLS != nil {
			scheme = "https://"
		}
		url = scheme + url
	}
	transport := &http.Transport{TLSClientConfig: c.tls()}
	defer transport.CloseIdleConnections()
	web := &http.Client{Transport: transport, Timeout: c.Step}
	return c.measure(ctx, func(ctx context.Context) (int64, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodHead, url+"/version", nil)
		if err != nil {
			return 0, err
		}
		resp, err := web.Do(req)
		if err != nil {
			return 0, err
		}
		_ = resp.Body.Close() // of a HEAD: empty
		date, err := http.ParseTime(resp.Header.Get("Date"))
		if err != nil {
			return 0, errNoDate
		}
		return date.Unix(), nil
	})
}

func (c *checker) tls() *tls.Config {
	if c.Config.TLS == nil {
		return nil
	}
	return c.Config.TLS.Clone()
}
