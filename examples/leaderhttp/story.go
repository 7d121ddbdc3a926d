// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"example.com/leasehold/leaseholdtest"
)

// A place is where a replica runs. The replica comes and goes, its port and its way to etcd stay.
type place struct {
	name    string
	client  *leaseholdtest.Client
	address string
	end     context.CancelFunc
	ended   chan error
}

// start starts the replica.
func (p *place) start(ctx context.Context) error {
	var config net.ListenConfig
	at := "127.0.0.1:0"
	if p.address != "" {
		at = p.address
	}
	listener, err := config.Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	p.address = listener.Addr().String()
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.end, p.ended = cancel, make(chan error, 1)
	go func() { p.ended <- serve(running, p.client.Client, listener) }()
	return nil
}

// stop ends the replica in the orderly way and waits for it.
func (p *place) stop() error {
	if p.end == nil {
		return nil
	}
	p.end()
	p.end = nil
	return <-p.ended
}

// A story is what happens to the replicas, and the client that counts meanwhile.
type story struct {
	replicas [3]*place
	began    time.Time
	turn     int
	last     int       // count
	open     int       // requests since without an answer: each may have counted
	leader   string    // the address that has counted it
	at       time.Time // when
}

func (s *story) say(format string, args ...any) {
	fmt.Printf("%7.3fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *story) tell(ctx context.Context) error {
	if err := s.count(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	s.say("%s leads and has counted to %d, asked through all three", s.name(s.leader), s.last)

	for _, p := range s.replicas {
		leads := s.name(s.leader) == p.name
		if err := p.stop(); err != nil {
			return err
		}
		before, at := s.leader, s.at
		if err := s.count(ctx, 0); err != nil {
			return err
		}
		if leads {
			s.say("%s was asked to end: %s counts on, %v after the last count of %s", p.name, s.name(s.leader), s.at.Sub(at).Round(time.Millisecond), s.name(before))
		} else {
			s.say("%s was asked to end: it does not lead, %s counts on", p.name, s.name(s.leader))
		}
		if err := p.start(ctx); err != nil {
			return err
		}
		if err := s.count(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}

	for _, p := range s.replicas {
		if s.name(s.leader) != p.name {
			continue
		}
		s.say("%s is cut off from etcd", p.name)
		at := s.at
		p.client.Blackhole(leaseholdtest.Both)
		for was := s.leader; s.leader == was; {
			if err := s.count(ctx, 0); err != nil {
				return err
			}
		}
		s.say("%s counts on, %v after the last count of %s: a term of two seconds, and what etcd needs to notice", s.name(s.leader), s.at.Sub(at).Round(time.Millisecond), p.name)
		p.client.Heal()
		break
	}
	s.say("counted to %d, none twice and none forgotten", s.last)
	return nil
}

func (s *story) name(address string) string {
	for _, p := range s.replicas {
		if p.address == address {
			return p.name
		}
	}
	return address
}

// count counts on for a while, at least once, asking one replica after the other.
func (s *story) count(ctx context.Context, during time.Duration) error {
	for began := time.Now(); ; {
		p := s.replicas[s.turn%len(s.replicas)]
		s.turn++
		n, leader, err := s.ask(ctx, "http://"+p.address+"/count")
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil: // it is down, or nobody leads: another one, soon
			s.open++
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
			continue
		case n <= s.last || n > s.last+s.open+1:
			return fmt.Errorf("%s counted %d after %d", s.name(leader), n, s.last)
		}
		s.last, s.open, s.leader, s.at = n, 0, leader, time.Now()
		if time.Since(began) >= during {
			return nil
		}
	}
}

// ask counts once, and returns the address of the replica that did it.
func (s *story) ask(ctx context.Context, url string) (n int, leader string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req) // follows the redirection
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return 0, "", err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, "", fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(body))
	}
	n, err = strconv.Atoi(string(bytes.TrimSpace(body)))
	return n, resp.Request.URL.Host, err
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
