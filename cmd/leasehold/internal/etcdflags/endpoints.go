// SPDX-License-Identifier: Apache-2.0

package etcdflags

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"time"
)

// checkEndpoints finds what no connection can be made to. A client would only say that nothing answers.
func (f *Flags) checkEndpoints() error {
	if len(f.Endpoints) == 0 {
		return refuse("%s is empty: want host:port, with commas between several", f.source("endpoints"))
	}
	for _, endpoint := range f.Endpoints {
		if err := checkEndpoint(endpoint); err != nil {
			return refuse("%s %q: %w: want host:port, http://host:port, https://host:port or unix://path", f.source("endpoints"), endpoint, err)
		}
	}
	return nil
}

func checkEndpoint(endpoint string) error {
	scheme, _, found := strings.Cut(endpoint, "://")
	address := endpoint
	switch {
	case strings.TrimSpace(endpoint) != endpoint:
		return errors.New("a space around it")
	case strings.HasPrefix(endpoint, "unix:"), strings.HasPrefix(endpoint, "unixs:"):
		if strings.Trim(endpoint[strings.Index(endpoint, ":")+1:], "/") == "" {
			return errors.New("no path")
		}
		return nil
	case !found: // host:port
	case scheme != "http" && scheme != "https":
		return errors.New("a scheme that etcd does not have")
	default:
		u, err := url.Parse(endpoint)
		if err != nil {
			return errors.New("not a URL")
		}
		address = u.Host
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return errors.New("no port")
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return errors.New("no such port")
	}
	return nil
}

// checkTimes finds times in which nothing can be done.
func (f *Flags) checkTimes() error {
	for _, t := range []struct {
		flag  string
		value time.Duration
		least time.Duration
		want  string
	}{
		{"dial-timeout", f.DialTimeout, 1, "a time above zero"},
		{"command-timeout", f.CommandTimeout, 1, "a time above zero"},
		{"keepalive-time", f.keepAliveTime, 0, "a time, or 0s for no pings"},
		{"keepalive-timeout", f.keepAliveTimeout, 1, "a time above zero"},
	} {
		if t.value < t.least {
			return refuse("%s %s: want %s", f.source(t.flag), t.value, t.want)
		}
	}
	return nil
}
